"""Attributions in rows of one length, and the titles of rows and columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.render.signs import visible

CellRows = list[list[Attribution | None]]


def cell_rows(cells: Any) -> CellRows:
    """Return rows of attributions with one sample each."""
    items = _as_list(cells)
    if items and all(isinstance(one, Attribution) and len(one) == 1 for one in items):
        items = [items]
    rows = [list(_samples(row)) for row in items]
    lengths = [len(row) for row in rows]
    if not any(cell for row in rows for cell in row):
        raise InputError(
            "there is nothing to draw",
            argument="cells",
            remedy="Pass at least one attribution",
        )
    if len(set(lengths)) > 1:
        raise InputError(
            f"the rows of the figure have different lengths: {lengths} cells",
            argument="cells",
            remedy="Pass rows of one length, with None for blank cells",
        )
    return rows


def _samples(row: Any) -> Iterable[Attribution | None]:
    for one in _as_list(row):
        if one is not None and not isinstance(one, Attribution):
            raise InputError(
                f"a cell of a figure must be an attribution, and one is {type(one).__name__}",
                argument="cells",
                remedy="Pass attributions in rows, as in [[a, b], [c, d]]",
            )
        yield from [None] if one is None else one


def _as_list(value: Any) -> list[Any]:
    """The value as a list. An attribution counts as one item."""
    several = isinstance(value, Iterable) and not isinstance(value, Attribution | str)
    return list(value) if several else [value]


def line_titles(
    which: str,
    titles: Sequence[str] | None,
    lines: Iterable[Iterable[Attribution | None]],
    cells: CellRows,
) -> tuple[str, ...]:
    """Return the titles of all rows or columns: `titles`, or made from the cells."""
    derived = tuple(_title(line, cells) for line in lines)
    if titles is None and which == "columns" and len(cells) == len(cells[0]) == 1 and cells[0][0]:
        facets = _facets(cells[0][0])  # a single cell has nothing to differ from
        return (f"{visible(facets['method'])}, {visible(facets['label'])}",)
    if titles is None:
        return derived
    if isinstance(titles, str) or len(titles) != len(derived):
        raise InputError(
            f"the figure has {len(derived)} {which}, and {which}={titles!r} does not name each",
            argument=which,
            remedy=f"Pass a list of {len(derived)} titles",
        )
    return tuple(visible(str(title)) if title else "" for title in titles)


def _title(line: Iterable[Attribution | None], cells: CellRows) -> str:
    """What the cells of a line share, and other cells do not."""
    everywhere = [_facets(cell) for row in cells for cell in row if cell]
    here = [_facets(cell) for cell in line if cell]
    parts = []
    for facet in everywhere[0]:
        values = {facets[facet] for facets in here}
        varies = len({facets[facet] for facets in everywhere}) > 1
        # Options only help to tell runs of one method apart: other methods have other options.
        if len(values) == 1 and varies and (facet != "options" or len(_methods(cells)) == 1):
            parts.append(visible(values.pop()))
    return ", ".join(filter(None, parts))


def _methods(cells: CellRows) -> set[str]:
    return {cell.method for row in cells for cell in row if cell}


def _facets(cell: Attribution) -> dict[str, str]:
    return {
        "method": cell.method,
        "label": f"why {cell.labels[0]}?",
        "options": ", ".join(f"{key}={value}" for key, value in cell.options.items()),
        "model": model_name(cell),
    }


def model_name(cell: Attribution) -> str:
    """Return the name of the model, or "" if it is not known."""
    return str(cell.provenance.get("model") or "")
