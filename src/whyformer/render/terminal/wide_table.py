"""A table that keeps all its columns on a narrow terminal: it continues below, labels repeated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

GAP = 2  # characters between columns
LABELS = 0.6  # of the width, at most, for the columns that name a row
NARROWEST = 8  # a column of text is not folded to less


@dataclass(frozen=True)
class WideTable:
    """Rows of text that name and measure things; nothing is cut at any width.

    Args:
        title: The line above the table.
        names: The columns.
        rows: The cells of every row.
        numeric: Whether a column has numbers, which are aligned right and never folded. The first
            columns without numbers name the rows.
        caption: A line below.
    """

    title: str
    names: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    caption: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the title and one table per block of columns that fits."""
        alike = self._alike
        facts = ", ".join(f"{self.names[i]} {self.rows[0][i]}" for i in alike)
        yield Text(f"{self.title} ({facts})" if facts else self.title, style="bold")
        labels = [i for i in self._labels if i not in alike]
        for number, block in enumerate(self._blocks(labels, options.max_width)):
            if number:
                yield Text()
            yield self._table([*labels, *block], options.max_width)
        if self.caption:
            yield Text(self.caption, style="dim")

    @property
    def _labels(self) -> list[int]:
        """The columns before the first one with numbers."""
        first = next((i for i, one in enumerate(self.numeric) if one), len(self.names))
        return [*range(first)]

    @property
    def _alike(self) -> list[int]:
        """The labels that are the same in all rows: the title has them."""
        if len(self.rows) < 2:
            return []
        alike = [i for i in self._labels if len({row[i] for row in self.rows}) == 1]
        return alike if len(alike) < len(self._labels) else alike[:-1]

    def _width(self, column: int) -> int:
        cells = [self.names[column], *(row[column] for row in self.rows)]
        return max(map(cell_len, cells))

    def _label_widths(self, labels: Sequence[int], room: int) -> dict[int, int]:
        """The width of each label; the widest are folded if they leave no room for numbers."""
        widths = {i: self._width(i) for i in labels}
        most = int(room * LABELS)
        while sum(widths.values()) + GAP * len(widths) > most:
            widest = max(widths, key=lambda i: widths[i])
            if widths[widest] <= NARROWEST:
                break
            widths[widest] -= 1
        return widths

    def _blocks(self, labels: Sequence[int], room: int) -> Iterator[list[int]]:
        """The other columns, divided into blocks that fit beside the labels."""
        left = room - sum(GAP + one for one in self._label_widths(labels, room).values())
        first = len(self._labels)
        block: list[int] = []
        used = 0
        for column in range(first, len(self.names)):
            wide = min(self._width(column), left) + GAP
            if block and used + wide > left + GAP:
                yield block
                block, used = [], 0
            block.append(column)
            used += wide
        yield block

    def _table(self, columns: Sequence[int], room: int) -> Table:
        table = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="dim")
        widths = self._label_widths([i for i in columns if i in self._labels], room)
        for i in columns:
            right = self.numeric[i]
            table.add_column(
                Text(self.names[i]),
                justify="right" if right else "left",
                no_wrap=right,
                overflow="fold",
                min_width=self._width(i) if right else widths.get(i, NARROWEST),
            )
        for row in self.rows:
            table.add_row(*(Text(row[i]) for i in columns))
        return table
