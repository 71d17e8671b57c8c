"""What may reach a terminal: no escape sequence, no override, nothing it cannot encode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from io import BytesIO, TextIOWrapper

import pytest
import torch
from rich.console import Console
from rich.text import Text

from whyformer.attribution import Attribution, Stream, views
from whyformer.render.terminal.ink_box import LEFT_TO_RIGHT, console_text, keep_left_to_right
from whyformer.render.terminal.text import comparison_text, sample_text

Make = Callable[..., Attribution]
ATTACK = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202eevil\u2066"


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORFGBG", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def printed(made: object, encoding: str = "utf-8", width: int = 100) -> str:
    """What a console without colours prints, in an encoding of its own."""
    out = BytesIO()
    file = TextIOWrapper(out, encoding=encoding, newline="")
    Console(file=file, width=width, highlight=False).print(made)
    file.flush()
    return out.getvalue().decode(encoding)


def hostile(sentence: Make) -> Attribution:
    """Every text of an attribution that a file could bring along."""
    made: Attribution = sentence(
        method=ATTACK,
        label=ATTACK,
        options={ATTACK: ATTACK},
        sinks={ATTACK: torch.ones(1)},
        provenance={"model": ATTACK, "notes": [ATTACK]},
    )
    stream = made.streams["text"]
    return replace(
        made,
        main=ATTACK,
        streams={ATTACK: replace(stream, name=ATTACK, tokens=((ATTACK,) * 7,)), "image": _image()},
    )


def _image() -> Stream:
    return Stream("image", torch.rand(1, 4), torch.ones(1, 4, dtype=torch.bool), grid=(2, 2))


@pytest.mark.parametrize("how", [{}, {"bars": True}, {"subwords": True}])
def test_nothing_from_the_outside_moves_the_cursor(sentence: Make, how: dict[str, bool]) -> None:
    made = hostile(sentence)
    for shown in (
        printed(sample_text(made, **how)),
        printed(comparison_text([made, replace(made, options={"a": ATTACK})], **how)),
    ):
        assert not {"\x1b", "\x07", "\x9b", "\u202e", "\u2066", "\r"} & set(shown)
        assert "evil" in shown


def test_titles_are_not_markup(sentence: Make) -> None:
    both = [sentence(options={"x": "[red]a[/red]"}), sentence(options={"x": "[/]"})]
    shown = printed(comparison_text(both))
    assert "x=[red]a[/red]" in shown
    assert "x=[/]" in shown


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_a_poor_encoding_is_no_reason_to_fail(
    sentence: Make, image: Make, text: Make, encoding: str
) -> None:
    shown = printed(sample_text(sentence(), bars=True), encoding)
    assert "gripping" in shown
    assert "-0.400" in shown
    assert "|==" in shown
    assert "?" in printed(sample_text(text([("映画", 1.0, 0)])), encoding)
    assert "+10" in printed(sample_text(image(torch.eye(3))), encoding)
    assert "gae" in printed(comparison_text([sentence(), sentence(method="gae")]), encoding)


def test_words_pass_as_they_are() -> None:
    for word in ("naïve", "שלום", "👩‍🚀", "映画", "a\nb"):
        assert console_text(word) == word


def test_numbers_stay_right_of_a_word_that_runs_left(text: Make) -> None:
    assert keep_left_to_right("film") == "film"
    for word in ("שלום", "فيلم", "film שלום"):
        assert keep_left_to_right(word) == word + LEFT_TO_RIGHT
    made = text([("שלום", 0.5, 0), ("film", -0.25, 1)])
    lines = Text.from_ansi(views["terminal"].render(made, 80, bars=True)).plain.split("\n")
    rows = [line.replace(LEFT_TO_RIGHT, "") for line in lines if "│" in line]
    assert len({row.index("│") for row in rows}) == 1
