"""Curves as SVG inside a page: labelled lines, dashes where colours run out, and words for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from whyformer.evaluation.curves import FEW, Curves, look, short
from whyformer.evaluation.wording import MINUS, number_text, visible

WIDE, HIGH = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 200, 10, 44  # margins; labels stand in the right one
LINE = 15  # height of a label


class _Frame(NamedTuple):
    """Where numbers are on the drawing."""

    x0: float
    x1: float
    y0: float
    y1: float
    high: int

    def x(self, value: float) -> float:
        return LEFT + (WIDE - LEFT - RIGHT) * (value - self.x0) / (self.x1 - self.x0)

    def y(self, value: float) -> float:
        return TOP + (self.high - TOP - BOTTOM) * (self.y1 - value) / (self.y1 - self.y0)


def drawing(found: Curves, name: str) -> Markup:
    """One SVG element; `name` makes its ids unique in the page.

    Its colours are the page's, by class, so that they follow the page from light to dark.
    """
    frame = _frame(found)
    few = " few" if len(found.lines) <= FEW else ""
    size = Markup('viewBox="0 0 {} {}" role="group"').format(WIDE, frame.high)
    head = Markup(
        '<svg class="curves{}" {} aria-labelledby="{}-title" aria-describedby="{}-desc">'
        '<title id="{}-title">{}</title><desc id="{}-desc">{}</desc>'
    ).format(few, size, name, name, name, _title(found), name, _told(found))
    lines = [_line(found, frame, i) for i in range(len(found.lines))]
    return Markup("").join([head, _axes(found, frame), *lines, *_labels(found, frame)]) + Markup(
        "</svg>"
    )


def _frame(found: Curves) -> _Frame:
    values = [v for line in found.lines for v in line.finite] or [0.0, 1.0]
    low, high = min(values), max(values)
    pad = 0.04 * (high - low) or 0.05 * abs(high) or 0.5
    x0, x1 = min(found.steps), max(found.steps)
    tall = max(HIGH, TOP + BOTTOM + LINE * len(found.lines))
    return _Frame(x0, x1 if x1 > x0 else x0 + 1, low - pad, high + pad, tall)


def _title(found: Curves) -> str:
    return f"Mean curve of {visible(found.metric)} for each method"


def _told(found: Curves) -> str:
    """The drawing in words: where every line begins and ends."""
    parts = [
        f"{visible(line.method)} from {number_text(line.mean[0], found.places)}"
        f" to {number_text(line.mean[-1], found.places)}"
        for line in found.lines
    ]
    return f"From step {found.steps[0]:g} to {found.steps[-1]:g}: {'; '.join(parts)}."


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers between two, about so many."""
    raw = (high - low) / about
    unit: float = 10.0 ** math.floor(math.log10(raw))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _axes(found: Curves, frame: _Frame) -> Markup:
    bottom, right = frame.high - BOTTOM, WIDE - RIGHT
    parts = []
    for value in ticks(frame.y0, frame.y1):
        y = frame.y(value)
        parts.append(
            Markup(
                '<path class="grid" d="M{} {:.1f}H{}"/>'
                '<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(LEFT, y, right, LEFT - 8, y + 4, f"{value:.6g}".replace("-", MINUS))
        )
    for value in ticks(frame.x0, frame.x1):
        parts.append(
            Markup(
                '<path class="grid" d="M{:.1f} {}v4"/>'
                '<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(frame.x(value), bottom, frame.x(value), bottom + 18, f"{value:.6g}")
        )
    share = frame.x0 >= 0 and frame.x1 <= 1
    parts.append(
        Markup(
            '<path class="axis" d="M{} {}V{}H{}"/>'
            '<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>'
        ).format(
            LEFT,
            TOP,
            bottom,
            right,
            (LEFT + right) / 2,
            frame.high - 8,
            "share of the tokens" if share else "step",
        )
    )
    return Markup("").join(parts)


def _dashed(index: int) -> Markup:
    dashes = look(index)[1]
    return Markup(' stroke-dasharray="{}"').format(dashes) if dashes else Markup("")


def _path(frame: _Frame, steps: Sequence[float], values: Sequence[float]) -> str:
    points = [
        f"{frame.x(step):.1f} {frame.y(value):.1f}"
        for step, value in zip(steps, values, strict=True)
        if math.isfinite(value)
    ]
    return "L".join(points)


def _line(found: Curves, frame: _Frame, index: int) -> Markup:
    line = found.lines[index]
    mean = _path(frame, found.steps, line.mean)
    if not mean:
        return Markup("")
    up, down = (
        _path(frame, steps, values)
        for steps, values in ((found.steps, line.high), (found.steps[::-1], line.low[::-1]))
    )
    band = Markup('<path class="band" d="M{}L{}Z"/>').format(up, down) if up else Markup("")
    return Markup('<g class="line c{}" data-line="{}">{}<path class="mean" d="M{}"{}/></g>').format(
        look(index)[0], index, band, mean, _dashed(index)
    )


def _labels(found: Curves, frame: _Frame) -> list[Markup]:
    """Each line's name beside its end, moved up or down until none covers another."""
    right, span = WIDE - RIGHT, frame.y1 - frame.y0
    drawn = [i for i, line in enumerate(found.lines) if math.isfinite(line.mean[-1])]

    def order(index: int) -> tuple[float, float, int]:
        # Lines that end together are listed as they lie on the way there.
        mean = found.lines[index].mean
        return -round(20 * mean[-1] / span), -sum(mean), index

    drawn.sort(key=order)
    places = _spaced([frame.y(found.lines[i].mean[-1]) for i in drawn], TOP, frame.high - BOTTOM)
    return [
        Markup(
            '<g class="label c{}" data-line="{}"><title>{}</title>'
            '<path class="lead" d="M{} {:.1f}L{} {:.1f}"/>'
            '<path class="mean" d="M{} {:.1f}h22"{}/><text x="{}" y="{:.1f}">{}</text></g>'
        ).format(
            look(i)[0],
            i,
            visible(found.lines[i].method),
            right + 1,
            frame.y(found.lines[i].mean[-1]),
            right + 14,
            y,
            right + 14,
            y,
            _dashed(i),
            right + 41,
            y + 4,
            short(visible(found.lines[i].method)),
        )
        for i, y in zip(drawn, places, strict=True)
    ]


def _spaced(wanted: Sequence[float], top: float, bottom: float) -> list[float]:
    """Places in the same order, a line's height apart, within the frame and near the wanted."""
    placed: list[float] = []
    for y in wanted:
        placed.append(max(y, placed[-1] + LINE if placed else top + LINE / 2))
    limit = bottom
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - LINE
    return placed
