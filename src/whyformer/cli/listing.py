"""What there is, as a table; and one of it in detail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text


def listing(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A row for each entry, its name first and in colour."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap=heading == headings[0], overflow="fold")
    for name, *rest in rows:
        table.add_row(Text(name, style="cyan"), *map(Text, rest))
    return table


def details(facts: Iterable[tuple[str, str]]) -> Table:
    """One entry: a heading and what is said under it, line by line; empty ones left out."""
    table = Table.grid(padding=(0, 2))
    for heading, said in facts:
        if said:
            table.add_row(Text(heading, style="bold"), Text(said))
    return table
