"""Bars of characters: exact to half a character, on the right side of zero, aligned."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from whyformer.attribution import Attribution, views
from whyformer.render.colours import EITHER, css
from whyformer.render.terminal.bars import bar
from whyformer.render.terminal.ink_box import InkBox
from whyformer.render.terminal.text import comparison_text

Make = Callable[..., Attribution]
PLAIN, COLOURED = InkBox(None, 80), InkBox(EITHER, 80)


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORFGBG", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def shown(attribution: Attribution, width: int = 80, **how: bool) -> list[str]:
    """The lines of the terminal, without their colours."""
    text = views["terminal"].render(attribution, width, **how)
    return Text.from_ansi(text).plain.replace("\r", "").split("\n")


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0.0, "    │"),
        (1.0, "    │━━━━"),
        (-1.0, "━━━━│"),
        (0.5, "    │━━"),
        (-0.375, "  ╺━│"),
        (0.375, "    │━╸"),
        (0.001, "    │╸"),  # what is not nothing is seen
        (-0.001, "   ╺│"),
        (3.0, "    │━━━▶"),
        (-3.0, "◀━━━│"),
        (float("inf"), "    │━━━▶"),
    ],
)
def test_a_bar(share: float, drawn: str) -> None:
    assert bar(PLAIN, share, 4, 4).plain == drawn


@given(share=st.floats(-2, 2), half=st.integers(1, 30))
def test_a_bar_keeps_to_its_side_and_its_place(share: float, half: int) -> None:
    left, _, right = bar(PLAIN, share, half, half).plain.partition("│")
    assert len(left) == half
    assert len(right) <= half
    assert bool(left.strip()) == (share < 0)
    assert bool(right) == (share > 0)


def test_the_sign_is_a_colour_too() -> None:
    for share, colour in ((0.5, EITHER.warm), (-0.5, EITHER.cool)):
        assert any(css(colour) in str(span.style) for span in bar(COLOURED, share, 4, 4).spans)


def test_every_word_has_a_bar_in_order(sentence: Make) -> None:
    lines = shown(sentence(), bars=True)
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("words")) + 1 :][:6]
    assert [line.split()[0] for line in table] == ["[CLS]", "gripping", ",", "yet", "dull", "[SEP]"]
    assert len({line.index("│") for line in table}) == 1
    assert [line.split()[1] for line in table[1:3]] == ["+0.800", "0.000"]
    sides = ["right", "right", None, "left", "left", "right"]
    for line, side in zip(table, sides, strict=True):
        before, _, after = line.partition("│")
        assert ("━" in before or "╺" in before) == (side == "left")
        assert bool(after.strip()) == (side == "right")
    assert "▶" in table[-1], "[SEP] has five times what the scale holds, and the bar says so"
    assert "▶" not in table[1], "the strongest word is full and no more"


def test_without_bars_only_the_strongest_are_listed(text: Make) -> None:
    many = text([(f"w{i}", (i + 1) / 10, i) for i in range(9)])
    assert "│" in "".join(shown(many))
    assert sum("│" in line for line in shown(many)) == 6
    assert sum("│" in line for line in shown(many, bars=True)) == 9


def test_patches_keep_their_short_list(image: Make) -> None:
    import torch

    made = image(torch.linspace(-1, 1, 196).reshape(14, 14))
    assert sum("│" in line for line in shown(made, bars=True)) == 6


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_bars_fit(text: Make, width: int) -> None:
    made = text([("a" * 60, 1.0, 0), ("映画" * 20, -1.0, 1), ("x", 1e-9, 2)])
    for line in shown(made, width, bars=True):
        assert cell_len(line) <= width


def test_a_comparison_with_bars(sentence: Make) -> None:
    methods = ["lrp_ah_ln", "gae", "rollout"]
    out = StringIO()
    made = comparison_text([sentence(method=m) for m in methods], bars=True)
    Console(file=out, width=120, highlight=False).print(made)
    lines = out.getvalue().split("\n")
    row = next(line for line in lines if line.startswith("gripping"))
    assert row.count("+0.800") == row.count("│") == 3
    assert row.count("━" * 6) == 3
    heads = next(line for line in lines if "rollout" in line)
    assert all(method in heads for method in methods), "side by side where there is room"


def test_a_narrow_terminal_stacks_the_methods(sentence: Make) -> None:
    methods = ["lrp_ah_ln", "gae", "rollout"]
    text = views["terminal"].render_comparison([sentence(method=m) for m in methods], 40, bars=True)
    lines = Text.from_ansi(text).plain.split("\n")
    assert max(map(cell_len, lines)) <= 40
    assert sum(line.startswith("gripping") for line in lines) == 3
