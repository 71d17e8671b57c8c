"""The terminal: explicit colours where there are colours, numbers where there are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from io import StringIO

import pytest
import torch
from rich.console import Console
from rich.text import Text

from whyformer.attribution import Attribution, views
from whyformer.render.colours import contrast
from whyformer.render.terminal.mosaic import half_blocks, tenths
from whyformer.render.terminal.text import sample_text

Make = Callable[..., Attribution]
BACKGROUND = re.compile(r"\x1b\[[\d;]*?38;2;(\d+);(\d+);(\d+);48;2;(\d+);(\d+);(\d+)m(\w+)")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORFGBG", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def printed(renderable: object, **console: object) -> str:
    out = StringIO()
    Console(file=out, width=80, highlight=False, **console).print(renderable)  # type: ignore[arg-type]
    return out.getvalue()


@pytest.mark.parametrize("background", ["", "15;0", "0;15"])
def test_ground_and_ink_are_both_explicit_and_legible(
    sentence: Make, monkeypatch: pytest.MonkeyPatch, background: str
) -> None:
    monkeypatch.setenv("COLORFGBG", background)
    found = BACKGROUND.findall(views["terminal"].render(sentence(), width=80))
    words = {match[6] for match in found}
    assert {"gripping", "dull"} <= words
    for *numbers, _ in found:
        ink, ground = tuple(map(int, numbers[:3])), tuple(map(int, numbers[3:]))
        assert contrast(ink, ground) >= 4.5  # type: ignore[arg-type]


def test_the_sign_shows_in_the_colour(sentence: Make) -> None:
    coloured = {m[6]: m for m in BACKGROUND.findall(views["terminal"].render(sentence(), width=80))}
    red, _, blue = map(int, coloured["gripping"][3:6])
    assert red > blue
    red, _, blue = map(int, coloured["dull"][3:6])
    assert red < blue


def test_words_that_say_nothing_stay_as_they_are(sentence: Make) -> None:
    coloured = {m[6] for m in BACKGROUND.findall(views["terminal"].render(sentence(), width=80))}
    assert "yet" not in coloured


@pytest.mark.parametrize("how", ["NO_COLOR", "file", "standard"])
def test_without_colour_the_numbers_speak(
    sentence: Make, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    view = views["terminal"]
    if how == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
        text = view.render(sentence(), width=80)
    elif how == "file":
        text = printed(sample_text(sentence()))
        assert "\x1b" not in text
    else:
        text = printed(sample_text(sentence()), force_terminal=True, color_system="standard")
    assert "48;2;" not in text
    assert "gripping(+0.800)" in text
    assert "dull(\N{MINUS SIGN}0.400)" in text
    assert "━" in text


def test_everything_is_said(sentence: Make) -> None:
    attribution = sentence(
        conservation=torch.tensor([0.83]),
        sinks={"biases": torch.tensor([0.31])},
        provenance={"model": "tiny", "notes": ["cut to 7 tokens"]},
    )
    text = Text.from_ansi(views["terminal"].render(attribution, width=120)).plain
    for piece in (
        "positive",
        "+2.50",
        "lrp_ah_ln",
        "tiny",
        "83 %",
        "biases +0.310",
        "[SEP] (+4.000)",
        "cut to 7",
    ):
        assert piece in text


def test_markup_and_escapes_in_words_are_only_words(text: Make) -> None:
    attribution = text([("[red]x[/red]", 1.0, 0), ("\x1b[31m", 0.5, 1)], label="[bold]b[/bold]")
    shown = printed(sample_text(attribution))
    assert "[red]x[/red]" in shown
    assert "[bold]b[/bold]" in shown
    assert "\x1b" not in shown


def test_nothing_is_wider_than_the_terminal(sentence: Make, image: Make) -> None:
    every = [sentence(method=m) for m in ("lrp_ah_ln", "gae", "transformer_attribution") * 3]
    for width in (40, 80):
        for shown in (
            views["terminal"].render(sentence(), width=width),
            views["terminal"].render(image(torch.rand(14, 14), size=(224, 224)), width=width),
            views["terminal"].render_comparison(every, width=width),
            views["terminal"].render_comparison([image(torch.rand(4, 4))] * 7, width=width),
        ):
            assert max(len(line) for line in Text.from_ansi(shown).plain.split("\n")) <= width


def test_a_wide_comparison_goes_on_below(sentence: Make) -> None:
    methods = [f"method_number_{i}" for i in range(9)]
    shown = Text.from_ansi(
        views["terminal"].render_comparison([sentence(method=m) for m in methods], width=80)
    ).plain
    assert all(method in shown for method in methods)
    assert shown.count("gripping") > 1
    assert shown.count("+0.800") == 9


def test_a_picture_in_half_blocks_keeps_its_corners() -> None:
    picture = torch.zeros(4, 4, 3, dtype=torch.float64)
    picture[0, 0] = torch.tensor([1.0, 0.0, 0.0])
    picture[3, 3] = torch.tensor([0.0, 0.0, 1.0])
    text = half_blocks(picture, 32)
    assert text.plain == "▀▀▀▀\n▀▀▀▀"
    first, last = text.spans[0].style, text.spans[-1].style
    assert "#ff0000" in str(first)
    assert "on #0000ff" in str(last)


def test_a_picture_in_digits() -> None:
    shares = torch.tensor([[1.0, -0.5], [0.0, 0.04]], dtype=torch.float64)
    lines = tenths(shares, 80).plain.split("\n")[1:]
    assert lines == ["+10 -5", "  .  ."]


def test_too_many_patches_are_averaged() -> None:
    lines = tenths(torch.ones(100, 100, dtype=torch.float64), 31).plain.split("\n")[1:]
    assert lines == ["+10" * 10] * 10
