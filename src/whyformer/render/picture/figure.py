"""Figures for papers: attributions in rows and columns, with colour bars and a caption."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from torch import Tensor

from whyformer.attribution import write_file
from whyformer.errors import InputError
from whyformer.render.colours import LIGHT
from whyformer.render.overlay import OVERLAY, PATCHES, SEEN, panel_pictures
from whyformer.render.panels import ImagePanel, TextPanel
from whyformer.render.picture.canvas import MARGIN, Canvas, Format, font
from whyformer.render.picture.colour_bar import bar_below, bar_beside, bar_in_line
from whyformer.render.picture.grid import FigureCell, FigureGrid, figure_grid
from whyformer.render.picture.word_boxes import WordBoxes, word_boxes

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

GAP = 8.0  # points between cells
SIDE = 110.0  # points of a row's title, at most
BAR = 42.0  # points that a colour bar beside a row takes, with its numbers
TALLEST, SHORTEST = 90.0, 30.0  # points of a standing colour bar
WORD = 8.5  # size of words, in points
WIDEST, NARROWEST = 170.0, 300.0  # points of a picture, and of the whole figure
INPUT = "model input"


@dataclass(frozen=True)
class Picture:
    """A figure: a notebook shows it, `save` writes it as PNG, SVG or PDF."""

    canvas: Canvas

    def file(self, form: Format = "png") -> bytes:
        """Return the figure as the bytes of a file."""
        return self.canvas.file(form)

    def save(self, path: str | Path) -> None:
        """Write the figure, as PNG, SVG or PDF by the ending of `path`.

        Args:
            path: A file that ends with .png, .svg or .pdf.

        Raises:
            InputError: If the ending is not known, or the folder does not exist.
        """
        form: Any = Path(path).suffix.lower().removeprefix(".")
        if form not in get_args(Format):
            raise InputError(
                f"{str(path)!r} has no known ending",
                argument="path",
                remedy=f"End it with {', '.join(f'.{known}' for known in get_args(Format))}",
            )
        write_file(self.file(form), path)

    def _repr_png_(self) -> bytes:
        return self.file("png")


def figure(
    cells: Any,
    *,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    scale: str = "method",
    subwords: bool = False,
) -> Picture:
    """Draw attributions in rows and columns as one picture, for a paper.

    Args:
        cells: One attribution, or a list of rows of attributions. An attribution with several
            samples fills as many cells. None leaves a cell blank.
        rows: The titles of the rows; by default what the cells of a row have in common.
        columns: The titles of the columns; by default what the cells of a column have in common.
        scale: Which cells share a colour scale: those of one "method", the whole "figure", or
            each "cell" has its own. Scales are symmetric around 0.
        subwords: Show the tokens of each word instead of whole words.

    Returns:
        The picture, which a notebook shows and `save` writes.

    Raises:
        InputError: If `cells` has no attribution or rows of different lengths.
        OptionError: If `scale` is not known.

    Example:
        >>> a = whyformer.explain("a gripping film")
        >>> whyformer.figure([[a]]).save("figure.pdf")
    """
    canvas = Canvas()
    _draw(canvas, figure_grid(cells, rows, columns, scale, subwords))
    return Picture(canvas)


# -- drawing ---------------------------------------------------------------------------------


def _draw(canvas: Canvas, grid: FigureGrid) -> None:
    before, above = _inputs(grid)
    titles = [*grid.rows, INPUT * bool(above)]
    side = max(min(SIDE, canvas.width(title, _title_font())) + GAP for title in titles) * any(
        titles
    )
    places = _places(canvas, grid, MARGIN + side, len(before[:1]))
    canvas.wide = max(NARROWEST, places.right + (BAR + GAP) * bool(grid.row_scales) + MARGIN)
    _column_titles(canvas, [INPUT] * len(before[:1]) + [*grid.columns], places)
    if above:
        _row(canvas, INPUT, [_input_drawing(panel) for panel in above], places)
    least = SHORTEST if grid.row_scales else 0.0
    for i, (title, cells) in enumerate(zip(grid.rows, grid.cells, strict=True)):
        shown = [_input_drawing(panel) for panel in before[i : i + 1]]
        shown += [_cell_drawing(canvas, cell, places) for cell in cells]
        high = _row(canvas, title, shown, places, least)
        for scale in grid.row_scales[i : i + 1]:
            height = min(TALLEST, high)
            canvas.y -= GAP + (high + height) / 2
            bar_beside(canvas, places.right + GAP, height, scale.span, scale.signed)
            canvas.y += GAP + (high + height) / 2
    _bars_below(canvas, grid, places)
    canvas.y += 4
    canvas.write_paragraph(grid.caption, font(7.5), LIGHT.quiet)


def _title_font() -> FontProperties:
    return font(8, "bold")


def _inputs(grid: FigureGrid) -> tuple[Sequence[ImagePanel], Sequence[ImagePanel]]:
    """The input images, either one before every row or one above every column."""
    before, above = grid.row_images, grid.column_images
    if before and (not above or len(before) <= len(above)):
        return before, ()
    return (), above


@dataclass(frozen=True)
class _Places:
    """The columns in points; the first may hold the inputs."""

    left: float
    width: float  # of a cell
    picture: float  # of a picture in a cell, 0 if there are only words
    count: int
    first: int  # of the columns of the grid

    def x(self, column: int) -> float:
        return self.left + column * (self.width + GAP)

    @property
    def right(self) -> float:
        return self.x(self.count) - GAP


def _places(canvas: Canvas, grid: FigureGrid, left: float, first: int) -> _Places:
    count = len(grid.columns) + first
    room = canvas.wide - MARGIN - left - (BAR + GAP) * bool(grid.row_scales)
    width = (room - GAP * (count - 1)) / count
    kinds = {type(panel) for panel in grid.panels}
    if ImagePanel in kinds:
        width = min(width, WIDEST)
    return _Places(left, width, width * (ImagePanel in kinds), count, first)


def _column_titles(canvas: Canvas, titles: Sequence[str], places: _Places) -> None:
    """Centred above pictures, left-aligned above words."""
    if not any(titles):
        return
    canvas.y += 4
    for j, title in enumerate(titles):
        x, cut = places.x(j) + places.picture / 2, canvas.cut(title, _title_font(), places.width)
        canvas.write(
            x, cut, _title_font(), LIGHT.text, align="center" if places.picture else "left"
        )
    canvas.y += 10


def _input_drawing(panel: ImagePanel) -> _CellDrawing:
    return _CellDrawing([dict(panel_pictures(panel))[SEEN]])


@dataclass(frozen=True)
class _CellDrawing:
    """The content of a cell: pictures, with texts below."""

    pictures: Sequence[Tensor] = ()
    texts: Sequence[WordBoxes] = ()

    def heights(self, width: float) -> list[float]:
        pictures = [width * picture.shape[0] / picture.shape[1] for picture in self.pictures]
        return [*pictures, *(text.height for text in self.texts)]


def _cell_drawing(canvas: Canvas, cell: FigureCell, places: _Places) -> _CellDrawing:
    images = [dict(panel_pictures(p)) for p in cell.panels if not isinstance(p, TextPanel)]
    texts = [panel for panel in cell.panels if isinstance(panel, TextPanel)]
    return _CellDrawing(
        [shown.get(OVERLAY, shown[PATCHES]) for shown in images],
        [word_boxes(canvas, panel, places.width, WORD) for panel in texts],
    )


def _row(
    canvas: Canvas, title: str, cells: Sequence[_CellDrawing], places: _Places, least: float = 0.0
) -> float:
    """Draw a row and return its height. Its title, and cells of words only, are centred."""
    heights = [cell.heights(places.picture) for cell in cells]
    top, high = canvas.y, max(least, *(sum(each) for each in heights))
    for j, (cell, each) in enumerate(zip(cells, heights, strict=True)):
        canvas.y = top if places.picture else top + (high - sum(each)) / 2
        for picture, height in zip(cell.pictures, each, strict=False):
            canvas.picture(picture, places.x(j), places.picture, height)
            canvas.y += height
        for text in cell.texts:
            text.draw(canvas, places.x(j))
    canvas.y = top + high / 2
    cut = canvas.cut(title, _title_font(), SIDE)
    canvas.write(places.left - GAP, cut, _title_font(), LIGHT.text, align="right")
    canvas.y = top + high + GAP
    return high


def _bars_below(canvas: Canvas, grid: FigureGrid, places: _Places) -> None:
    """Draw the scales that are not beside rows: below their columns, or in a line."""
    if grid.row_scales:
        return
    if grid.column_scales:
        for j, scale in enumerate(grid.column_scales):
            bar_below(canvas, places.x(j + places.first), places.width, scale.span, scale.signed)
        canvas.y += 24
        return
    x = MARGIN
    canvas.y += 6
    for scale in grid.scales:
        if x > canvas.wide / 2:
            x, canvas.y = MARGIN, canvas.y + 14
        name = scale.name * (len(grid.scales) > 1)
        x = bar_in_line(canvas, x, scale.span, scale.signed, name) + 20
    canvas.y += 12
