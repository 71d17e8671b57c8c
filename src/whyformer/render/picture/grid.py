"""The grid of a figure: cells in rows and columns, their titles and colour scales."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from whyformer.attribution import Attribution
from whyformer.errors import OptionError
from whyformer.render.numbers import number
from whyformer.render.panels import ImagePanel, Panel, TextPanel
from whyformer.render.picture.layout import CellRows, cell_rows, line_titles, model_name
from whyformer.render.signs import visible
from whyformer.render.subwords import as_subwords
from whyformer.render.view_model import ONE_SCALE, OWN_SCALE, SampleContent, read_samples

# Which cells share a colour scale (those with the same key), and the note about it.
_Key = Callable[[Attribution, tuple[int, int]], Hashable]
_SHARING: dict[str, tuple[_Key, str]] = {
    "method": (
        lambda cell, place: (cell.method, repr(sorted(cell.options.items())), model_name(cell)),
        "Each method has its own colour scale: compare sizes within a method, and only order and"
        " sign across methods.",
    ),
    "cell": (
        lambda cell, place: place,
        "Each cell has its own colour scale, set by its strongest word or patch: compare order and"
        " sign, not size.",
    ),
    "figure": (lambda cell, place: None, ""),
}
FULL, ONE = "Full colour at {span}.", "All cells share one colour scale: full colour at {span}."
BEYOND = "Words in a dashed box are off the scale."


@dataclass(frozen=True)
class Scale:
    """A colour scale: what it belongs to, and the score with full colour."""

    name: str
    span: float
    signed: bool


@dataclass(frozen=True)
class FigureCell:
    """One sample: its panels and the scale of each. A blank cell has none."""

    panels: tuple[Panel, ...] = ()
    scales: tuple[Scale, ...] = ()


@dataclass(frozen=True)
class FigureGrid:
    """Cells in rows of one length, with a title (or "") for every row and column."""

    cells: tuple[tuple[FigureCell, ...], ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    sharing: str  # the note about several scales

    @property
    def scales(self) -> tuple[Scale, ...]:
        """The distinct scales, in reading order."""
        return tuple(dict.fromkeys(s for row in self.cells for cell in row for s in cell.scales))

    @property
    def row_scales(self) -> tuple[Scale, ...]:
        """The scale of every row, if each row has one and they differ; else empty."""
        return _one_each(self.cells)

    @property
    def column_scales(self) -> tuple[Scale, ...]:
        """The same for columns."""
        return _one_each(zip(*self.cells, strict=True))

    @property
    def panels(self) -> list[Panel]:
        """Every panel of every cell, in reading order."""
        return [panel for row in self.cells for cell in row for panel in cell.panels]

    @property
    def caption(self) -> str:
        """What the colours mean."""
        texts = (panel for panel in self.panels if isinstance(panel, TextPanel))
        beyond = any(panel.is_beyond(word) for panel in texts for word in panel.words)
        signed = any(scale.signed for scale in self.scales)
        alone = len(self.rows) == len(self.columns) == 1
        one = (FULL if alone else ONE).format(span=number(self.scales[0].span).lstrip("+"))
        sentences = [
            "Orange supports the target" + (", blue opposes it." if signed else "."),
            one if len(self.scales) == 1 else self.sharing,
            BEYOND * beyond,
        ]
        return " ".join(filter(None, sentences))

    @property
    def row_images(self) -> tuple[ImagePanel, ...]:
        """The image of every row, if all cells of a row share one; else empty."""
        return _common_images(self.cells)

    @property
    def column_images(self) -> tuple[ImagePanel, ...]:
        """The same for columns."""
        return _common_images(zip(*self.cells, strict=True))


def figure_grid(
    cells: Any,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    scale: str = "method",
    subwords: bool = False,
) -> FigureGrid:
    """Return the grid of `cells`. See `figure` for the arguments."""
    if scale not in _SHARING:
        raise OptionError(
            f"unknown scale {scale!r}",
            argument="scale",
            remedy=f"Pass one of {', '.join(_SHARING)}",
        )
    key, sharing = _SHARING[scale]
    placed = cell_rows(cells)
    if subwords:
        placed = [[as_subwords(cell) if cell else None for cell in row] for row in placed]
    across = list(zip(*placed, strict=True))
    read_once = [[read_samples(cell)[0] if cell else None for cell in row] for row in placed]
    keys = {
        (i, j): key(cell, (i, j))
        for i, row in enumerate(placed)
        for j, cell in enumerate(row)
        if cell
    }
    scales = _scales(placed, read_once, keys)
    return FigureGrid(
        tuple(
            tuple(_cell(content, keys.get((i, j)), scales) for j, content in enumerate(row))
            for i, row in enumerate(read_once)
        ),
        line_titles("rows", rows, placed, placed),
        line_titles("columns", columns, across, placed),
        " ".join(filter(None, [sharing * (len(set(keys.values())) > 1), _apart(read_once)])),
    )


# -- scales ----------------------------------------------------------------------------------


def _scales(
    placed: CellRows,
    contents: list[list[SampleContent | None]],
    keys: dict[tuple[int, int], Hashable],
) -> dict[Hashable, Scale]:
    """The scale of every group of panels, set by the strongest score of the group."""
    groups: dict[Hashable, list[tuple[Attribution, Panel, bool]]] = {}
    for (i, j), key in keys.items():
        content, cell = contents[i][j], placed[i][j]
        assert content is not None
        assert cell is not None
        for panel in content.panels:
            apart = content.scales != ONE_SCALE
            group = groups.setdefault(_group(key, content, panel), [])
            group.append((cell, panel, apart and len(content.panels) > 1))
    several = len({cell.method for group in groups.values() for cell, _, _ in group}) > 1
    scales = {}
    for key, group in groups.items():
        cell, panel, apart = group[0]
        name = ", ".join([visible(cell.method)] * several + [visible(panel.name)] * apart)
        # A panel without any score has a placeholder span, which must not set the scale.
        span = max((p.span for _, p, _ in group if not p.silent), default=1.0)
        scales[key] = Scale(name, span, any(p.signed for _, p, _ in group))
    return scales


def _apart(contents: list[list[SampleContent | None]]) -> str:
    """The note if streams have separate scales, else \"\"."""
    said = {content.scales for row in contents for content in row if content}
    return OWN_SCALE * (OWN_SCALE in said)


def _one_each(lines: Iterable[Iterable[FigureCell]]) -> tuple[Scale, ...]:
    each = [{scale for cell in line for scale in cell.scales} for line in lines]
    several = all(len(scales) == 1 for scales in each) and len(set().union(*each)) > 1
    return tuple(scales.pop() for scales in each) if several else ()


def _group(key: Hashable, content: SampleContent, panel: Panel) -> Hashable:
    """Panels of one key share a scale, unless their streams are not parts of one sum."""
    return key, panel.name if content.scales != ONE_SCALE else ""


def _cell(
    content: SampleContent | None, key: Hashable, scales: dict[Hashable, Scale]
) -> FigureCell:
    if content is None:
        return FigureCell()
    own = [scales[_group(key, content, panel)] for panel in content.panels]
    panels = (
        replace(panel, span=scale.span, signed=scale.signed)
        for panel, scale in zip(content.panels, own, strict=True)
    )
    return FigureCell(tuple(panels), tuple(own))


def _common_images(lines: Iterable[Sequence[FigureCell]]) -> tuple[ImagePanel, ...]:
    found = [_common_image(line) for line in lines]
    images = [image for image in found if image is not None]
    return tuple(images) if len(images) == len(found) else ()


def _common_image(line: Sequence[FigureCell]) -> ImagePanel | None:
    """The image that all cells share, or None."""
    panels = [p for cell in line for p in cell.panels if isinstance(p, ImagePanel)]
    images = [panel.image for panel in panels]
    first = images[0] if images else None
    same = first is not None and all(i is not None and torch.equal(i, first) for i in images)
    return panels[0] if same else None
