"""PNG: a picture for a paper or a slide, drawn by matplotlib without touching its global state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from whyformer.attribution import Attribution, views
from whyformer.views.colour import LIGHT, STEPS, ink, step
from whyformer.views.comparison import Comparison, compare
from whyformer.views.heat import draw
from whyformer.views.overlay import beside, heat_map, pictures
from whyformer.views.reading import (
    SILENT,
    ImagePanel,
    Panel,
    Reading,
    TextPanel,
    number,
    read,
    strongest,
)
from whyformer.views.sheet import MARGIN, WIDTH, Sheet, font

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties

TOP = 6  # rows of the list of strongest words or patches
BAR = 150.0  # points of the longest bar


class Png:
    """Coloured words, overlays and bars on white."""

    name = "png"
    title = "a picture to paste into a paper"

    def render(self, attribution: Attribution) -> bytes:
        """The file, every sample below the other."""
        sheet = Sheet()
        for reading in read(attribution):
            _sample(sheet, reading)
        return sheet.file()

    def render_comparison(self, attributions: Sequence[Attribution]) -> bytes:
        """The file, one column of scores or one overlay per attribution."""
        sheet = Sheet()
        for sample in compare(attributions):
            _compared(sheet, sample)
        return sheet.file()


# -- one attribution -------------------------------------------------------------------------


def _sample(sheet: Sheet, reading: Reading) -> None:
    model = [("model", reading.model)] if reading.model else []
    _head(sheet, reading, [("method", reading.method), *model])
    for panel in reading.panels:
        if reading.scales:
            sheet.y += 4
            sheet.wrapped(panel.name, font(9, "bold"), LIGHT.text)
        if isinstance(panel, TextPanel):
            _words(sheet, panel)
        else:
            shown = pictures(panel)
            _row_of(sheet, shown, per_row=max(3, len(shown)))
        if reading.scales and panel.silent:
            sheet.wrapped(SILENT, font(7.5), LIGHT.quiet)
            continue
        _legend(sheet, panel)
        if isinstance(panel, TextPanel) and panel.note:
            sheet.wrapped(panel.note, font(7.5), LIGHT.quiet)
        _bars(sheet, panel)
    for matrix in reading.generated:
        draw(sheet, matrix)
    for note in filter(None, (reading.scales, *reading.notes)):
        sheet.wrapped(note, font(7.5), LIGHT.quiet)
    accounts = ", ".join(f"{name} {number(value)}" for name, value in reading.held)
    sheet.wrapped(reading.accounted + (f" ({accounts})" if accounts else ""), font(8), LIGHT.text)
    sheet.y += 8


def _head(sheet: Sheet, reading: Reading, facts: Sequence[tuple[str, str]]) -> None:
    sheet.y += 4
    sheet.wrapped(f"Why {reading.label}?", font(13, "bold"), LIGHT.text)
    said = [("output", number(reading.output)), *facts]
    sheet.wrapped("  ·  ".join(f"{name} {value}" for name, value in said), font(8), LIGHT.quiet)
    sheet.y += 4


def _words(sheet: Sheet, panel: TextPanel) -> None:
    """The text in order, every word in a box of its colour, broken to fit the page."""
    x, padding, gap, line = MARGIN, 3.0, 2.5, 21.0
    sheet.y += 6
    for word in panel.words:
        face = font(9, style="italic") if word.special else font(11)
        for piece in _pieces(sheet, word.text, face, WIDTH - 2 * (MARGIN + padding)):
            width = sheet.width(piece, face) + 2 * padding
            if x > MARGIN and x + width > WIDTH - MARGIN:
                x, sheet.y = MARGIN, sheet.y + line
            ground = LIGHT.colour(step(panel.share(word)) / STEPS)
            sheet.box(x, width, 16, ground, dashed=panel.is_beyond(word))
            sheet.write(x + padding, piece, face, ink(ground))
            x += width + gap
    sheet.y += line


def _pieces(sheet: Sheet, text: str, face: FontProperties, room: float) -> list[str]:
    """The word whole, or cut where it is wider than the page."""
    if sheet.width(text, face) <= room:
        return [text]
    half = len(text) // 2
    return _pieces(sheet, text[:half], face, room) + _pieces(sheet, text[half:], face, room)


def _legend(sheet: Sheet, panel: Panel) -> None:
    face, x = font(7.5), MARGIN
    start = f"against {number(-panel.span, panel.span)}" if panel.signed else "0"
    sheet.write(x, start, face, LIGHT.quiet)
    x += sheet.width(start, face) + 5
    sheet.y -= 4
    sheet.picture(heat_map(_ramp(panel.signed)), x, 110, 8)
    sheet.y += 4
    sheet.write(x + 115, f"{number(panel.span, panel.span)} for", face, LIGHT.quiet)
    sheet.y += 15


def _ramp(signed: bool) -> Tensor:
    return torch.linspace(-1 if signed else 0, 1, 128, dtype=torch.float64)[None]


def _bars(sheet: Sheet, panel: Panel) -> None:
    """The strongest words or patches, each with its score and a bar."""
    rows, face = strongest(panel.rows, TOP), font(8)
    names = [sheet.cut(row.name, face, WIDTH / 3) for row in rows]
    scores = [number(row.score, panel.span) for row in rows]
    name_width = max((sheet.width(name, face) for name in names), default=0)
    score_end = MARGIN + name_width + 14 + max((sheet.width(s, face) for s in scores), default=0)
    sheet.y += 3
    for name, score, row in zip(names, scores, rows, strict=True):
        sheet.write(MARGIN, name, face, LIGHT.text)
        sheet.write(score_end, score, face, LIGHT.text, align="right")
        end = LIGHT.warm if row.length > 0 else LIGHT.cool
        sheet.box(score_end + 8, max(0.5, abs(row.length) * BAR), 6, end, dashed=False)
        sheet.y += 12.5
    sheet.y += 6


def _row_of(sheet: Sheet, shown: Sequence[tuple[str, Tensor]], per_row: int) -> None:
    """Pictures side by side with their captions, as many rows as it takes."""
    gap, face = 10.0, font(8)
    width = (WIDTH - 2 * MARGIN - gap * (per_row - 1)) / per_row
    for i in range(0, len(shown), per_row):
        row = shown[i : i + per_row]
        heights = [width * picture.shape[0] / picture.shape[1] for _, picture in row]
        for j, ((_, picture), height) in enumerate(zip(row, heights, strict=True)):
            sheet.picture(picture, MARGIN + j * (width + gap), width, height)
        sheet.y += max(heights) + 8
        for j, (caption, _) in enumerate(row):
            sheet.write(
                MARGIN + j * (width + gap), sheet.cut(caption, face, width), face, LIGHT.quiet
            )
        sheet.y += 16


# -- several attributions --------------------------------------------------------------------


def _compared(sheet: Sheet, sample: Comparison) -> None:
    first = sample.readings[0]
    _head(sheet, first, [("model", first.model)] if first.model else [])
    for panels in sample.rows:
        if len(sample.rows) > 1:
            sheet.wrapped(panels[0].name, font(9, "bold"), LIGHT.text)
        texts = [p for p in panels if isinstance(p, TextPanel)]
        images = [p for p in panels if isinstance(p, ImagePanel)]
        if texts:
            _table(sheet, sample.titles, texts)
        else:
            shown = beside(sample.titles, images)
            _row_of(sheet, shown, per_row=min(5, len(shown)))
    sheet.wrapped(sample.scales, font(7.5), LIGHT.quiet)
    sheet.y += 8


def _table(sheet: Sheet, titles: Sequence[str], panels: Sequence[TextPanel]) -> None:
    """Words down, methods across, scores on coloured ground; wide tables go on below."""
    face, small, per_row = font(8), font(7.5, "bold"), 7
    names = [sheet.cut(word.text, face, WIDTH / 4) for word in panels[0].words]
    left = MARGIN + max(sheet.width(name, face) for name in names) + 10
    for i in range(0, len(panels), per_row):
        some = list(zip(titles, panels, strict=True))[i : i + per_row]
        width = min(115.0, (WIDTH - MARGIN - left) / len(some))
        for j, (title, _) in enumerate(some):
            cut = sheet.cut(title, small, width - 4)
            sheet.write(left + (j + 0.5) * width, cut, small, LIGHT.text, align="center")
        sheet.y += 14
        for k, name in enumerate(names):
            sheet.write(MARGIN, name, face, LIGHT.text)
            for j, (_, panel) in enumerate(some):
                word = panel.words[k]
                ground = LIGHT.colour(step(panel.share(word)) / STEPS)
                sheet.box(left + j * width + 1, width - 2, 12, ground, dashed=False)
                text = number(word.score, panel.span)
                sheet.write(left + (j + 0.5) * width, text, face, ink(ground), align="center")
            sheet.y += 13.5
        sheet.y += 8


views.register("png", Png())
