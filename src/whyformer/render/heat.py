"""A matrix on a sheet: output words down, input words across, heat where they meet."""

from __future__ import annotations

from whyformer.render.between import Matrix
from whyformer.render.canvas import MARGIN, WIDTH, Sheet, font
from whyformer.render.colour import LIGHT, STEPS, ink, step
from whyformer.render.view_model import number

ROWS = 80  # at most; more would make the picture too tall to look at
NARROWEST, WIDEST, HIGH = 8.0, 36.0, 13.0  # of a cell, in points
NUMBERED = 26.0  # a cell this wide has room for its number
LONGEST = 90.0  # of a column's name


def draw(sheet: Sheet, matrix: Matrix) -> None:
    """Draws the matrix at the sheet's place, cut to what fits, with both axes named."""
    face, small = font(8), font(6.5)
    names = [sheet.cut(row.text, face, WIDTH / 4) for row in matrix.rows[:ROWS]]
    left = MARGIN + max((sheet.width(name, face) for name in names), default=0) + 8
    room = WIDTH - MARGIN - left
    shown = matrix.cut(ROWS, int(room / NARROWEST))
    wide = min(WIDEST, room / max(1, len(shown.columns)))
    _title(sheet, shown)
    heads = [sheet.cut(column.text, face, LONGEST) for column in shown.columns]
    sheet.y += max((sheet.width(head, face) for head in heads), default=0)
    for j, head in enumerate(heads):
        sheet.write_up(left + (j + 0.5) * wide, head, face, LIGHT.text)
    sheet.y += 5 + HIGH / 2
    lines = zip(names, shown.values.tolist(), shown.shares.tolist(), strict=True)
    for name, values, shares in lines:
        sheet.write(left - 5, name, face, LIGHT.text, align="right")
        for j, (value, share) in enumerate(zip(values, shares, strict=True)):
            ground = LIGHT.colour(step(share) / STEPS)
            sheet.cell(left + j * wide, wide, HIGH, ground)
            if wide >= NUMBERED:
                text = number(value, shown.span)
                sheet.write(left + (j + 0.5) * wide, text, small, ink(ground), align="center")
        sheet.y += HIGH
    sheet.y += 10


def _title(sheet: Sheet, matrix: Matrix) -> None:
    sheet.y += 6
    sheet.wrapped(f"output by {matrix.answering}", font(9, "bold"), LIGHT.text)
    said = f"output words down, {matrix.answering} across; full colour at {number(matrix.span)}"
    cut = f"; shown are {matrix.left_out}" if matrix.left_out else ""
    sheet.wrapped(said + cut, font(7.5), LIGHT.quiet)
