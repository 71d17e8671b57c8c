"""Terminal tables for the commands that list methods, metrics and models."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text


def listing(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Return a table with one row per entry; the first column is the name."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading == headings[0], overflow="fold")
    for name, *rest in rows:
        table.add_row(Text(name, style="cyan"), *map(Text, rest))
    return table


def details(facts: Iterable[tuple[str, str]]) -> Table:
    """Return the details of one entry as headings with text; empty ones are left out."""
    table = Table.grid(padding=(0, 2))
    for heading, text in facts:
        if text:
            table.add_row(Text(heading, style="bold"), Text(text))
    return table
