"""A long text on a canvas: all sentences as one strip, and the strongest of them to read."""

from __future__ import annotations

from whyformer.render.colours import LIGHT, STEPS, Colour, ink, step
from whyformer.render.numbers import number
from whyformer.render.panels import TextPanel
from whyformer.render.picture.canvas import MARGIN, WIDTH, Canvas, font

ROWS = 40  # sentences that are written out
STRIP, ROW = 16.0, 13.5  # heights in points


def draw_sentences(canvas: Canvas, panel: TextPanel) -> None:
    """Draw the strip at the current y, and below it the strongest sentences in their order."""
    sentences, scores, span = panel.sentences, panel.sentence_scores, panel.sentence_span
    colours = [_colour(canvas, score / span) for score in scores]
    room, x = WIDTH - 2 * MARGIN, MARGIN
    canvas.y += STRIP / 2
    for (start, end), colour in zip(sentences, colours, strict=True):
        wide = room * (end - start) / len(panel.words)
        canvas.cell(x, wide, STRIP, colour)
        x += wide
    canvas.y += STRIP / 2 + 8
    shown = sorted(sorted(range(len(scores)), key=lambda i: -abs(scores[i]))[:ROWS])
    roles = [next((r for a, b, r in panel.roles if a <= start < b), "") for start, _ in sentences]
    for i in shown:
        start, end = sentences[i]
        text = " ".join(word.text for word in panel.words[start:end])
        text = f"{roles[i]}: {text}" if roles[i] else text
        _draw_line(canvas, text, number(scores[i], span), colours[i])
    canvas.y += 2
    few = f"the strongest {len(shown)} of {len(scores)} sentences" * (len(shown) < len(scores))
    note = ["The strip shows all sentences in order", few and f"below it are {few}"]
    full = f"sentences have full colour at {number(span)}"
    canvas.write_paragraph("; ".join(filter(None, [*note, full])) + ".", font(7.5), LIGHT.quiet)


def _draw_line(canvas: Canvas, text: str, score: str, colour: Colour) -> None:
    face, room = font(8), WIDTH - 2 * MARGIN
    canvas.y += ROW / 2
    canvas.box(MARGIN, room, ROW - 1.5, colour, dashed=False)
    wide = canvas.width(score, face)
    canvas.write(MARGIN + 5, canvas.cut(text, face, room - wide - 25), face, ink(colour))
    canvas.write(WIDTH - MARGIN - 5, score, face, ink(colour), align="right")
    canvas.y += ROW / 2


def _colour(canvas: Canvas, share: float) -> Colour:
    return canvas.theme.colour(step(share) / STEPS)
