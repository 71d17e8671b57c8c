"""Tables at 80 columns: every label and number is there, none is cut."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from whyformer.render.terminal.wide_table import WideTable

Run = Callable[..., Any]


def print_table(table: WideTable, width: int) -> str:
    console = Console(file=StringIO(), width=width)
    with console.capture() as capture:
        console.print(table)
    return capture.get()


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("columns", [1, 5, 12])
def test_nothing_is_cut(width: int, columns: int) -> None:
    numbers = [f"number {i}" for i in range(columns)]
    rows = [
        [name, group, *(f"{sign}0.{i}{place:03d}" for i in range(columns))]
        for place, (name, group, sign) in enumerate([("Ada", "one", "+"), ("Berlin", "two", "-")])
    ]
    table = WideTable("title", ["name", "group", *numbers], rows, [False, False, *[True] * columns])
    shown = print_table(table, width)
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for piece in (*numbers, *(cell for row in rows for cell in row)):
        assert piece in shown
    if width == 200:
        assert shown.count("Ada") == 1


def test_labels_that_are_all_alike_go_to_the_title() -> None:
    rows = [["gae", "Ada", "1"], ["gae", "Bob", "2"]]
    shown = print_table(WideTable("Names", ["method", "name", "n"], rows, [False, False, True]), 80)
    assert shown.splitlines()[0].strip() == "Names (method gae)"
    assert shown.count("gae") == 1
    one = print_table(WideTable("Names", ["method", "n"], rows[:1], [False, True, True]), 80)
    assert one.splitlines()[0].strip() == "Names"


def test_long_texts_are_folded() -> None:
    text = "word " * 60
    shown = print_table(
        WideTable("T", ["name", "share", "text"], [["a", "1", text]], [False, True, False]), 80
    )
    assert shown.count("word") == 60
    assert max(map(len, shown.splitlines())) <= 80
