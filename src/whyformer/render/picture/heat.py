"""A heat map on a canvas: output words down, input words across."""

from __future__ import annotations

from whyformer.render.colours import LIGHT, STEPS, ink, step
from whyformer.render.numbers import number
from whyformer.render.picture.canvas import MARGIN, WIDTH, Canvas, font
from whyformer.render.relevance_matrix import RelevanceMatrix

ROWS = 80  # at most; more would make the picture too tall
NARROWEST, WIDEST, HIGH = 8.0, 36.0, 13.0  # of a cell, in points
NUMBERED = 26.0  # points: a cell this wide has room for its number
LONGEST = 90.0  # of a column's name


def draw_matrix(canvas: Canvas, matrix: RelevanceMatrix) -> None:
    """Draw the matrix at the current y, cut to what fits, with both axes named."""
    face, small = font(8), font(6.5)
    names = [canvas.cut(row.text, face, WIDTH / 4) for row in matrix.rows[:ROWS]]
    left = MARGIN + max((canvas.width(name, face) for name in names), default=0) + 8
    room = WIDTH - MARGIN - left
    shown = matrix.cut(ROWS, int(room / NARROWEST))
    wide = min(WIDEST, room / max(1, len(shown.columns)))
    _title(canvas, shown)
    heads = [canvas.cut(column.text, face, LONGEST) for column in shown.columns]
    canvas.y += max((canvas.width(head, face) for head in heads), default=0)
    for j, head in enumerate(heads):
        canvas.write_up(left + (j + 0.5) * wide, head, face, LIGHT.text)
    canvas.y += 5 + HIGH / 2
    lines = zip(names, shown.values.tolist(), shown.shares.tolist(), strict=True)
    for name, values, shares in lines:
        canvas.write(left - 5, name, face, LIGHT.text, align="right")
        for j, (value, share) in enumerate(zip(values, shares, strict=True)):
            ground = canvas.theme.colour(step(share) / STEPS)
            canvas.cell(left + j * wide, wide, HIGH, ground)
            if wide >= NUMBERED:
                text = number(value, shown.span)
                canvas.write(left + (j + 0.5) * wide, text, small, ink(ground), align="center")
        canvas.y += HIGH
    canvas.y += 10


def _title(canvas: Canvas, matrix: RelevanceMatrix) -> None:
    canvas.y += 6
    canvas.write_paragraph(f"output by {matrix.answering}", font(9, "bold"), LIGHT.text)
    axes = f"output words down, {matrix.answering} across; full colour at {number(matrix.span)}"
    cut = f"; only {matrix.left_out}" if matrix.left_out else ""
    canvas.write_paragraph(axes + cut, font(7.5), LIGHT.quiet)
