"""PNG: a picture for a paper or a slide; svg.py and pdf.py write the same one as vectors."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from whyformer.attribution import Attribution, views
from whyformer.render.canvas import MARGIN, WIDTH, Format, Sheet, font
from whyformer.render.colour import LIGHT, STEPS, ink, step
from whyformer.render.colour_bar import bar_in_line
from whyformer.render.comparison import Comparison, compare
from whyformer.render.heat import draw
from whyformer.render.overlay import beside, pictures
from whyformer.render.pieces import in_pieces
from whyformer.render.view_model import (
    SILENT,
    ImagePanel,
    Panel,
    Reading,
    TextPanel,
    number,
    read,
    strongest,
)
from whyformer.render.word_boxes import word_boxes

TOP = 6  # rows of the list of strongest words or patches
BAR = 150.0  # points of the longest bar


class Png:
    """Coloured words, overlays and bars on white; `subwords` shows the tokens of each word."""

    name: Format = "png"
    title = "a picture to paste into a paper"

    def render(self, attribution: Attribution, *, subwords: bool = False) -> bytes:
        """The file, every sample below the other."""
        sheet = Sheet()
        for reading in read(in_pieces(attribution) if subwords else attribution):
            _sample(sheet, reading)
        return sheet.file(self.name)

    def render_comparison(
        self, attributions: Sequence[Attribution], *, subwords: bool = False
    ) -> bytes:
        """The file, one column of scores or one overlay per attribution."""
        sheet = Sheet()
        for sample in compare([in_pieces(a) for a in attributions] if subwords else attributions):
            _compared(sheet, sample)
        return sheet.file(self.name)


# -- one attribution -------------------------------------------------------------------------


def _sample(sheet: Sheet, reading: Reading) -> None:
    model = [("model", reading.model)] if reading.model else []
    output = ("output", number(reading.output))
    _head(sheet, [reading.label], [output, ("method", reading.method), *model])
    for panel in reading.panels:
        if reading.scales:
            sheet.y += 4
            sheet.wrapped(panel.name, font(9, "bold"), LIGHT.text)
        if isinstance(panel, TextPanel):
            word_boxes(sheet, panel, WIDTH - 2 * MARGIN, 11).draw(sheet, MARGIN)
            sheet.y += 10
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


def _head(sheet: Sheet, labels: Sequence[str], facts: Sequence[tuple[str, str]]) -> None:
    sheet.y += 4
    why = " or ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
    sheet.wrapped(f"Why {why}?", font(13, "bold"), LIGHT.text)
    sheet.wrapped("  ·  ".join(f"{name} {value}" for name, value in facts), font(8), LIGHT.quiet)
    sheet.y += 4


def _legend(sheet: Sheet, panel: Panel) -> None:
    bar_in_line(sheet, MARGIN, panel.span, panel.signed)
    sheet.y += 15


def _bars(sheet: Sheet, panel: Panel) -> None:
    """The strongest words or patches, each with its score and a bar left or right of zero."""
    rows, face = strongest(panel.rows, TOP), font(8)
    names = [sheet.cut(row.name, face, WIDTH / 3) for row in rows]
    scores = [number(row.score, panel.span) for row in rows]
    name_width = max((sheet.width(name, face) for name in names), default=0)
    score_end = MARGIN + name_width + 14 + max((sheet.width(s, face) for s in scores), default=0)
    zero = score_end + 10 + BAR * max(0.0, *(-row.length for row in rows))
    sheet.y += 3
    sheet.line(zero, -7, 12.5 * len(rows) - 5.5)
    for name, score, row in zip(names, scores, rows, strict=True):
        sheet.write(MARGIN, name, face, LIGHT.text)
        sheet.write(score_end, score, face, LIGHT.text, align="right")
        long = max(0.5, abs(row.length) * BAR)
        end, start = (LIGHT.warm, zero) if row.length > 0 else (LIGHT.cool, zero - long)
        sheet.box(start, long * bool(row.length), 6, end, dashed=False)
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
    first, several = sample.readings[0], len(sample.labels) > 1
    facts = [("method", first.method) if several else ("output", number(first.output))]
    _head(sheet, sample.labels, [*facts, *([("model", first.model)] if first.model else [])])
    for panels in sample.rows:
        if len(sample.rows) > 1:
            sheet.wrapped(panels[0].name, font(9, "bold"), LIGHT.text)
        texts = [p for p in panels if isinstance(p, TextPanel)]
        images = [p for p in panels if isinstance(p, ImagePanel)]
        if texts:
            _table(sheet, sample.choices, texts)
        else:
            shown = beside(sample.choices, images)
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
