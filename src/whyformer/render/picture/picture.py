"""The picture of an attribution or a comparison, drawn on a canvas for PNG, SVG and PDF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from whyformer.attribution import Attribution
from whyformer.render.colours import LIGHT, Theme, ink
from whyformer.render.comparison import OWN, ComparedSample, compare_samples
from whyformer.render.numbers import number
from whyformer.render.overlay import overlay_row, panel_pictures
from whyformer.render.panels import SILENT, ImagePanel, Panel, TextPanel, Word, strongest_rows
from whyformer.render.picture.canvas import MARGIN, WIDTH, Canvas, Format, font
from whyformer.render.picture.colour_bar import bar_in_line
from whyformer.render.picture.heat import draw_matrix
from whyformer.render.picture.options import (
    check_size,
    picture_theme,
    with_photos,
    without_specials,
)
from whyformer.render.picture.sentence_strip import draw_sentences
from whyformer.render.picture.word_boxes import word_boxes, word_colour
from whyformer.render.signs import short
from whyformer.render.subwords import as_subwords
from whyformer.render.view_model import SampleContent, read_samples

TOP = 6  # rows of the list of strongest words or patches
BAR = 150.0  # points of the longest bar
LARGE = 20_000  # values of output by input that are not drawn any more


class PictureView:
    """A view that writes the picture in one file format.

    `subwords` shows the tokens of each word instead of whole words. `size` is the width of a PNG in
    inches and `dpi` its pixels per inch. `colours` names a diverging colour map of matplotlib.
    `specials=False` leaves out tokens such as [CLS]. `photo` is the original under the overlay of
    each sample: a path, an image, or a list of them.
    """

    format: Format

    def render(
        self,
        attribution: Attribution,
        *,
        subwords: bool = False,
        size: float | None = None,
        dpi: int | None = None,
        colours: str | None = None,
        specials: bool = True,
        photo: Any = None,
    ) -> bytes:
        """Return the file, with the samples below each other."""
        check_size(size, dpi)
        shown = PictureOptions(subwords, picture_theme(colours), specials, photo)
        return draw_attribution(attribution, shown).file(self.format, size, dpi)

    def render_comparison(
        self,
        attributions: Sequence[Attribution],
        *,
        subwords: bool = False,
        size: float | None = None,
        dpi: int | None = None,
        colours: str | None = None,
        specials: bool = True,
        photo: Any = None,
        scale: str = OWN,
    ) -> bytes:
        """Return the file, with one column of scores or one overlay per attribution."""
        check_size(size, dpi)
        shown = PictureOptions(subwords, picture_theme(colours), specials, photo)
        return draw_comparison(attributions, shown, scale).file(self.format, size, dpi)


@dataclass(frozen=True)
class PictureOptions:
    """What a picture shows; see `PictureView`."""

    subwords: bool = False
    theme: Theme = LIGHT
    specials: bool = True
    photo: Any = None

    def apply(self, contents: Sequence[SampleContent]) -> list[SampleContent]:
        """Return the contents, one per sample, as they are shown."""
        shown = with_photos(contents, self.photo)
        return shown if self.specials else [without_specials(one) for one in shown]


def draw_attribution(attribution: Attribution, options: PictureOptions | None = None) -> Canvas:
    """Return a canvas with the samples below each other."""
    options = options or PictureOptions()
    canvas = Canvas(options.theme)
    shown = as_subwords(attribution) if options.subwords else attribution
    for content in options.apply(read_samples(shown)):
        _draw_sample(canvas, content)
    return canvas


def draw_comparison(
    attributions: Sequence[Attribution], options: PictureOptions | None = None, scale: str = OWN
) -> Canvas:
    """Return a canvas with one column of scores, or one overlay, per attribution."""
    options = options or PictureOptions()
    canvas = Canvas(options.theme)
    shown = [as_subwords(a) for a in attributions] if options.subwords else attributions
    samples = compare_samples(shown, scale)
    columns = zip(*(sample.contents for sample in samples), strict=True)
    applied = zip(*(options.apply(column) for column in columns), strict=True)
    for sample, contents in zip(samples, applied, strict=True):
        _draw_comparison(canvas, replace(sample, contents=contents))
    return canvas


# -- one attribution -------------------------------------------------------------------------


def _draw_sample(canvas: Canvas, content: SampleContent) -> None:
    model = [("model", content.model)] if content.model else []
    output = [("output", number(content.output)), *_chance(content)]
    _draw_head(canvas, [short(content.label)], [*output, ("method", content.method), *model])
    for panel in content.panels:
        if content.scales:
            canvas.y += 4
            canvas.write_paragraph(panel.name, font(9, "bold"), LIGHT.text)
        if isinstance(panel, TextPanel):
            _draw_text(canvas, panel)
        else:
            shown = panel_pictures(panel, canvas.theme)
            _draw_pictures(canvas, shown, per_row=max(3, len(shown)))
        if content.scales and panel.silent:
            canvas.write_paragraph(SILENT, font(7.5), LIGHT.quiet)
            continue
        _draw_legend(canvas, panel)
        if panel.note:
            canvas.write_paragraph(panel.note, font(7.5), LIGHT.quiet)
        _draw_bars(canvas, panel)
    if content.answer is not None and content.answer.output_words:
        _draw_answer(canvas, content.answer)
    for matrix in content.generated:
        if matrix.values.numel() <= LARGE:
            draw_matrix(canvas, matrix)
    large = [m.answering for m in content.generated if m.values.numel() > LARGE]
    left_out = f"Too large for a picture: output by {', '.join(large)}." if large else ""
    for note in filter(None, (left_out, content.scales, *content.notes)):
        canvas.write_paragraph(note, font(7.5), LIGHT.quiet)
    accounts = ", ".join(f"{name} {number(value)}" for name, value in content.totals)
    canvas.write_paragraph(
        content.trust + (f" ({accounts})" if accounts else ""), font(8), LIGHT.text
    )
    canvas.y += 8


def _chance(content: SampleContent) -> list[tuple[str, str]]:
    return [("probability", content.chance)] if content.chance else []


def _draw_text(canvas: Canvas, panel: TextPanel) -> None:
    """Draw the words, by chat messages if there are any; a long text by its sentences."""
    if panel.long:
        draw_sentences(canvas, panel)
        return
    for role, words in panel.turns:
        if role:
            canvas.y += 4
            canvas.write(MARGIN, role, font(7.5), LIGHT.quiet)
            canvas.y += 8
        part = replace(panel, words=words)
        word_boxes(canvas, part, WIDTH - 2 * MARGIN, 11).draw(canvas, MARGIN)
    canvas.y += 10


def _draw_answer(canvas: Canvas, panel: TextPanel) -> None:
    """Draw what the model wrote, without colour."""
    words = tuple(Word(word.text, 0.0, word.special) for word in panel.answer)
    canvas.y += 4
    canvas.write_paragraph("output", font(9, "bold"), LIGHT.text)
    output = TextPanel("output", words, span=1.0, signed=False)
    word_boxes(canvas, output, WIDTH - 2 * MARGIN, 11).draw(canvas, MARGIN)
    canvas.y += 10


def _draw_head(canvas: Canvas, labels: Sequence[str], facts: Sequence[tuple[str, str]]) -> None:
    canvas.y += 4
    why = " or ".join(filter(None, (", ".join(labels[:-1]), labels[-1])))
    canvas.write_paragraph(f"Why {why}?", font(13, "bold"), LIGHT.text)
    canvas.write_paragraph(
        "  ·  ".join(f"{name} {value}" for name, value in facts), font(8), LIGHT.quiet
    )
    canvas.y += 4


def _draw_legend(canvas: Canvas, panel: Panel) -> None:
    bar_in_line(canvas, MARGIN, panel.span, panel.signed)
    canvas.y += 15


def _draw_bars(canvas: Canvas, panel: Panel) -> None:
    """Draw the strongest words or patches, each with its score and a bar left or right of 0."""
    rows, face = strongest_rows(panel.rows, TOP), font(8)
    names = [canvas.cut(row.name, face, WIDTH / 3) for row in rows]
    scores = [number(row.score, panel.span) for row in rows]
    name_width = max((canvas.width(name, face) for name in names), default=0)
    score_end = MARGIN + name_width + 14 + max((canvas.width(s, face) for s in scores), default=0)
    zero = score_end + 10 + BAR * max(0.0, *(-row.length for row in rows))
    gap = 4.0 * any(row.apart for row in rows)
    warm, cool = canvas.theme.warm, canvas.theme.cool
    canvas.y += 3
    canvas.line(zero, -7, 12.5 * len(rows) + gap - 5.5)
    for name, score, row in zip(names, scores, rows, strict=True):
        if row.apart:  # special tokens stand below the words, with a gap before the first
            canvas.y, gap = canvas.y + gap, 0.0
        ink_of = LIGHT.quiet if row.apart else LIGHT.text
        canvas.write(MARGIN, name, font(8, style="italic") if row.apart else face, ink_of)
        canvas.write(score_end, score, face, ink_of, align="right")
        long = max(0.5, abs(row.length) * BAR)
        end, start = (warm, zero) if row.length > 0 else (cool, zero - long)
        canvas.box(start, long * bool(row.length), 6, end, dashed=row.beyond)
        canvas.y += 12.5
    canvas.y += 6


def _draw_pictures(canvas: Canvas, shown: Sequence[tuple[str, Tensor]], per_row: int) -> None:
    """Draw pictures side by side with their captions, in rows."""
    gap, face = 10.0, font(8)
    width = (WIDTH - 2 * MARGIN - gap * (per_row - 1)) / per_row
    for i in range(0, len(shown), per_row):
        row = shown[i : i + per_row]
        heights = [width * picture.shape[0] / picture.shape[1] for _, picture in row]
        for j, ((_, picture), height) in enumerate(zip(row, heights, strict=True)):
            canvas.picture(picture, MARGIN + j * (width + gap), width, height)
        canvas.y += max(heights) + 8
        captions = [canvas.lines(caption, face, width) for caption, _ in row]
        for nth in range(max(map(len, captions))):
            for j, lines in enumerate(captions):
                text = lines[nth] if nth < len(lines) else ""
                canvas.write(MARGIN + j * (width + gap), text, face, LIGHT.quiet)
            canvas.y += 11
        canvas.y += 5


# -- several attributions --------------------------------------------------------------------


def _draw_comparison(canvas: Canvas, sample: ComparedSample) -> None:
    first, several = sample.contents[0], len(sample.labels) > 1
    one = len({(content.label, content.model) for content in sample.contents}) == 1
    known = {
        "output": number(first.output) if one else "",
        "method": sample.methods if several else "",
        "probability": sample.chances,
        "models" if ", " in sample.models else "model": sample.models,
    }
    _draw_head(canvas, sample.labels, [(name, value) for name, value in known.items() if value])
    for panels in sample.rows:
        if len(sample.rows) > 1:
            canvas.write_paragraph(panels[0].name, font(9, "bold"), LIGHT.text)
        texts = [p for p in panels if isinstance(p, TextPanel)]
        images = [p for p in panels if isinstance(p, ImagePanel)]
        if texts:
            _draw_table(canvas, sample.choices, texts)
        else:
            shown = overlay_row(sample.choices, images, canvas.theme)
            _draw_pictures(canvas, shown, per_row=min(5, len(shown)))
    canvas.write_paragraph(sample.scales, font(7.5), LIGHT.quiet)
    canvas.y += 8


def _draw_table(canvas: Canvas, titles: Sequence[str], panels: Sequence[TextPanel]) -> None:
    """Draw a table: words down, methods across, scores on their colour. It wraps if wide."""
    face, small = font(8), font(7.5, "bold")
    names = [canvas.cut(word.text, face, WIDTH / 4) for word in panels[0].words]
    left = MARGIN + max(canvas.width(name, face) for name in names) + 10
    room = WIDTH - MARGIN - left
    # No title is cut: a column is as wide as the longest word in one.
    longest = max(canvas.width(word, small) for title in titles for word in title.split(" "))
    per_row = max(1, min(7, int(room / min(room, longest + 6))))
    for i in range(0, len(panels), per_row):
        some = list(zip(titles, panels, strict=True))[i : i + per_row]
        width = min(115.0, room / len(some)) if longest + 6 <= 115 else room / len(some)
        heads = [canvas.lines(title, small, width - 4) for title, _ in some]
        for nth in range(max(map(len, heads))):
            for j, lines in enumerate(heads):
                at = nth - max(map(len, heads)) + len(lines)  # the last lines stand side by side
                text = lines[at] if at >= 0 else ""
                canvas.write(left + (j + 0.5) * width, text, small, LIGHT.text, align="center")
            canvas.y += 10
        canvas.y += 4
        for k, name in enumerate(names):
            canvas.write(MARGIN, name, face, LIGHT.text)
            for j, (_, panel) in enumerate(some):
                word = panel.words[k]
                ground = word_colour(panel, word, canvas.theme)
                canvas.box(left + j * width + 1, width - 2, 12, ground, dashed=False)
                text = number(word.score, panel.span)
                canvas.write(left + (j + 0.5) * width, text, face, ink(ground), align="center")
            canvas.y += 13.5
        canvas.y += 8
