"""Attributions laid out in rows of one length, and what rows and columns are called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.render.panels import visible

CellRows = list[list[Attribution | None]]


def cell_rows(cells: Any) -> CellRows:
    """Rows of attributions of one sample each."""
    given = _as_list(cells)
    if given and all(isinstance(one, Attribution) and len(one) == 1 for one in given):
        given = [given]
    rows = [list(_samples(row)) for row in given]
    lengths = [len(row) for row in rows]
    if not any(cell for row in rows for cell in row):
        raise InputError("there is nothing to draw: give at least one attribution")
    if len(set(lengths)) > 1:
        raise InputError(
            f"the rows of a figure need one length, and these have {lengths} cells; put None where"
            " a cell is to stay blank"
        )
    return rows


def _samples(row: Any) -> Iterable[Attribution | None]:
    for one in _as_list(row):
        if one is not None and not isinstance(one, Attribution):
            raise InputError(
                f"a figure is made of attributions in rows, as in [[a, b], [c, d]], and a cell is"
                f" of type {type(one).__name__}"
            )
        yield from [None] if one is None else one


def _as_list(given: Any) -> list[Any]:
    """What was given as a list; an attribution, though it has samples, is one thing."""
    several = isinstance(given, Iterable) and not isinstance(given, Attribution | str)
    return list(given) if several else [given]


def line_titles(
    which: str,
    given: Sequence[str] | None,
    lines: Iterable[Iterable[Attribution | None]],
    placed: CellRows,
) -> tuple[str, ...]:
    """The titles of all rows or all columns: as given, else what can be told from the cells."""
    found = tuple(_title(line, placed) for line in lines)
    if given is None and which == "columns" and len(placed) == len(placed[0]) == 1 and placed[0][0]:
        facets = _facets(placed[0][0])  # nothing sets a single cell apart, so it says what it is
        return (f"{visible(facets['method'])}, {visible(facets['label'])}",)
    if given is None:
        return found
    if isinstance(given, str) or len(given) != len(found):
        raise InputError(
            f"{which}={given!r} has to name each of the {len(found)} {which} of the figure"
        )
    return tuple(visible(str(title)) if title else "" for title in given)


def _title(line: Iterable[Attribution | None], placed: CellRows) -> str:
    """What the cells of a line have in common and the figure as a whole has not."""
    everywhere = [_facets(cell) for row in placed for cell in row if cell]
    here = [_facets(cell) for cell in line if cell]
    parts = []
    for facet in everywhere[0]:
        values = {facets[facet] for facets in here}
        varies = len({facets[facet] for facets in everywhere}) > 1
        # Options tell apart what one method did in several ways; other methods have others.
        if len(values) == 1 and varies and (facet != "options" or len(_methods(placed)) == 1):
            parts.append(visible(values.pop()))
    return ", ".join(filter(None, parts))


def _methods(placed: CellRows) -> set[str]:
    return {cell.method for row in placed for cell in row if cell}


def _facets(cell: Attribution) -> dict[str, str]:
    return {
        "method": cell.method,
        "label": f"why {cell.labels[0]}?",
        "options": ", ".join(f"{key}={value}" for key, value in cell.options.items()),
        "model": model_name(cell),
    }


def model_name(cell: Attribution) -> str:
    """What the model is called, "" where nobody knows."""
    return str(cell.provenance.get("model") or "")
