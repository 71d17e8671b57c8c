"""Colour scales on a canvas: in a line, below a column or beside a row."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.render.colours import LIGHT
from whyformer.render.numbers import number
from whyformer.render.overlay import heat_map
from whyformer.render.picture.canvas import Align, Canvas, font

THICK = 7.0  # points
LONG = 110.0  # of a bar in a line


def bar_in_line(canvas: Canvas, x: float, span: float, signed: bool, name: str = "") -> float:
    """Draw the scale at x and the current y, between its ends, and return its right end."""
    face, bold = font(7.5), font(7.5, "bold")
    start = f"against {number(-span, span)}" if signed else "0"
    end = f"{number(span, span)} for"
    if name:
        canvas.write(x, name, bold, LIGHT.quiet)
        x += canvas.width(name, bold) + 8
    canvas.write(x, start, face, LIGHT.quiet)
    x += canvas.width(start, face) + 5
    canvas.y -= THICK / 2
    canvas.picture(heat_map(_ramp(signed)[None], canvas.theme), x, LONG, THICK)
    canvas.y += THICK / 2
    x += LONG + 5
    canvas.write(x, end, face, LIGHT.quiet)
    return x + canvas.width(end, face)


def bar_below(canvas: Canvas, x: float, width: float, span: float, signed: bool) -> None:
    """Draw the scale down from the current y, with its numbers below."""
    aligned: list[Align] = ["left", "center", "right"]
    canvas.picture(heat_map(_ramp(signed)[None], canvas.theme), x, width, THICK)
    canvas.y += THICK + 6
    for share, score in _ticks(span, signed):
        canvas.write(x + share * width, score, font(6.5), LIGHT.quiet, aligned[round(2 * share)])
    canvas.y -= THICK + 6


def bar_beside(canvas: Canvas, x: float, height: float, span: float, signed: bool) -> None:
    """Draw the scale upright, down from the current y, with its numbers to the right."""
    top = canvas.y
    canvas.picture(heat_map(_ramp(signed).flip(0)[:, None], canvas.theme), x, THICK, height)
    for share, score in _ticks(span, signed):
        canvas.y = top + 3 + (1 - share) * (height - 6)
        canvas.write(x + THICK + 3, score, font(6.5), LIGHT.quiet)
    canvas.y = top


def _ticks(span: float, signed: bool) -> list[tuple[float, str]]:
    """(position from 0 to 1, score) of the numbers at the bar."""
    ends = [(0.0, number(-span, span) if signed else "0"), (1.0, number(span, span))]
    return ends + [(0.5, "0")] * signed


def _ramp(signed: bool) -> Tensor:
    return torch.linspace(-1 if signed else 0, 1, 128, dtype=torch.float64)
