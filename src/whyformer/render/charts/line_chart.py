"""Line charts as SVG: labelled lines with bands, and dashes once the colours are used up."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from whyformer.attribution.characters import hide_controls
from whyformer.render.charts.axis import cut_label, tick_text, ticks

# Found by search: under each common colour blindness any two differ by 0.14 in OKLab, and all have
# a contrast of 3 and more against their page. Beyond six, dashes tell lines apart.
LIGHT = ("#004be2", "#ff5313", "#10a589", "#7f517e", "#281a46", "#762300")
DARK = ("#936df4", "#ce880e", "#74c5df", "#b8324f", "#ffffff", "#f7cc20")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
FEW = 6  # lines whose bands can all be seen at once
LONGEST, LONGEST_ON_PAGE = 26, 60  # characters of a label
LETTER = 7.0  # about the width of a letter

WIDE, HIGH = 720, 320
LEFT, RIGHT, TOP, BOTTOM = 56, 200, 10, 44  # margins; labels stand in the right one
LINE = 15  # height of a label


@dataclass(frozen=True)
class Line:
    """One line and its band; NaN where a value is not known."""

    name: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]

    @property
    def finite(self) -> list[float]:
        """All finite values of the line and its band."""
        return [v for v in (*self.mean, *self.low, *self.high) if math.isfinite(v)]


@dataclass(frozen=True)
class LineChart:
    """Lines over the same steps; `description` is the chart in words, for screen readers."""

    title: str
    description: str
    x_label: str
    y_label: str
    steps: tuple[float, ...]
    lines: tuple[Line, ...]


def line_look(index: int) -> tuple[int, str]:
    """Return the colour number and the dashes of a line: all colours first, then with dashes."""
    return index % len(LIGHT), DASHES[index // len(LIGHT) % len(DASHES)]


def line_label(line: Line) -> str:
    """Return the name of a line, short enough to stand beside it in a picture."""
    return cut_label(hide_controls(line.name), LONGEST)


def _whole_label(line: Line) -> str:
    """The name of a line beside it on a page, where the chart can be wider."""
    return cut_label(hide_controls(line.name), LONGEST_ON_PAGE)


def line_colours(scope: str) -> str:
    """Return CSS that sets the colour of the classes c0, c1, ... below `scope`, light and dark."""

    def rules(colours: Sequence[str]) -> str:
        return "".join(f"{scope} .c{i}{{--c:{colour}}}" for i, colour in enumerate(colours))

    return f"{rules(LIGHT)}\n@media (prefers-color-scheme:dark){{{rules(DARK)}}}"


def draw_lines(chart: LineChart, name: str) -> Markup:
    """Return the chart as an SVG element; `name` makes its ids unique in the page.

    Colours are set by class, so that they follow the page from light to dark.
    """
    frame = _frame(chart)
    few = " few" if len(chart.lines) <= FEW else ""
    names = [len(_whole_label(line)) for line in chart.lines]
    wide = WIDE - RIGHT + max(RIGHT, round(LETTER * max(names, default=0)) + 24)
    size = Markup('viewBox="0 0 {} {}" role="group"').format(wide, frame.high)
    head = Markup(
        '<svg class="curves{}" {} aria-labelledby="{}-title" aria-describedby="{}-desc">'
        '<title id="{}-title">{}</title><desc id="{}-desc">{}</desc>'
    ).format(few, size, name, name, name, chart.title, name, chart.description)
    lines = [_line(chart, frame, i) for i in range(len(chart.lines))]
    return Markup("").join([head, _axes(chart, frame), *lines, *_labels(chart, frame)]) + Markup(
        "</svg>"
    )


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


def _frame(chart: LineChart) -> _Frame:
    values = [v for line in chart.lines for v in line.finite] or [0.0, 1.0]
    low, high = min(values), max(values)
    pad = 0.04 * (high - low) or 0.05 * abs(high) or 0.5
    x0, x1 = min(chart.steps), max(chart.steps)
    tall = max(HIGH, TOP + BOTTOM + LINE * len(chart.lines))
    return _Frame(x0, x1 if x1 > x0 else x0 + 1, low - pad, high + pad, tall)


def _axes(chart: LineChart, frame: _Frame) -> Markup:
    bottom, right = frame.high - BOTTOM, WIDE - RIGHT
    parts = []
    for value in ticks(frame.y0, frame.y1):
        y = frame.y(value)
        parts.append(
            Markup(
                '<path class="grid" d="M{} {:.1f}H{}"/>'
                '<text class="tick" x="{}" y="{:.1f}" text-anchor="end">{}</text>'
            ).format(LEFT, y, right, LEFT - 8, y + 4, tick_text(value))
        )
    for value in ticks(frame.x0, frame.x1):
        parts.append(
            Markup(
                '<path class="grid" d="M{:.1f} {}v4"/>'
                '<text class="tick" x="{:.1f}" y="{}" text-anchor="middle">{}</text>'
            ).format(frame.x(value), bottom, frame.x(value), bottom + 18, tick_text(value))
        )
    middle = (LEFT + right) / 2
    parts.append(
        Markup(
            '<path class="axis" d="M{} {}V{}H{}"/>'
            '<text class="tick" x="{}" y="{}" text-anchor="middle">{}</text>'
        ).format(LEFT, TOP, bottom, right, middle, frame.high - 8, chart.x_label)
    )
    return Markup("").join(parts)


def _dashes(index: int) -> Markup:
    dashes = line_look(index)[1]
    return Markup(' stroke-dasharray="{}"').format(dashes) if dashes else Markup("")


def _path(frame: _Frame, steps: Sequence[float], values: Sequence[float]) -> str:
    points = [
        f"{frame.x(step):.1f} {frame.y(value):.1f}"
        for step, value in zip(steps, values, strict=True)
        if math.isfinite(value)
    ]
    return "L".join(points)


def _line(chart: LineChart, frame: _Frame, index: int) -> Markup:
    line = chart.lines[index]
    mean = _path(frame, chart.steps, line.mean)
    if not mean:
        return Markup("")
    up = _path(frame, chart.steps, line.high)
    down = _path(frame, chart.steps[::-1], line.low[::-1])
    band = Markup('<path class="band" d="M{}L{}Z"/>').format(up, down) if up else Markup("")
    return Markup('<g class="line c{}" data-line="{}">{}<path class="mean" d="M{}"{}/></g>').format(
        line_look(index)[0], index, band, mean, _dashes(index)
    )


def _labels(chart: LineChart, frame: _Frame) -> list[Markup]:
    """Each line's name beside its end, moved up or down until none covers another."""
    right, span = WIDE - RIGHT, frame.y1 - frame.y0
    indices = [i for i, line in enumerate(chart.lines) if math.isfinite(line.mean[-1])]

    def order(index: int) -> tuple[float, float, int]:
        # Lines that end together are listed as they lie on the way there.
        mean = chart.lines[index].mean
        return -round(20 * mean[-1] / span), -sum(mean), index

    indices.sort(key=order)
    ends = [frame.y(chart.lines[i].mean[-1]) for i in indices]
    places = _space_out(ends, TOP, frame.high - BOTTOM)
    return [
        Markup(
            '<g class="label c{}" data-line="{}"><title>{}</title>'
            '<path class="lead" d="M{} {:.1f}L{} {:.1f}"/>'
            '<path class="mean" d="M{} {:.1f}h22"{}/><text x="{}" y="{:.1f}">{}</text></g>'
        ).format(
            line_look(i)[0],
            i,
            _whole_label(chart.lines[i]),
            right + 1,
            end,
            right + 14,
            y,
            right + 14,
            y,
            _dashes(i),
            right + 41,
            y + 4,
            hide_controls(chart.lines[i].name),
        )
        for i, end, y in zip(indices, ends, places, strict=True)
    ]


def _space_out(ideal: Sequence[float], top: float, bottom: float) -> list[float]:
    """Places in the same order, at least a label's height apart, near the ideal ones."""
    placed: list[float] = []
    for y in ideal:
        placed.append(max(y, placed[-1] + LINE if placed else top + LINE / 2))
    limit = bottom
    for i in reversed(range(len(placed))):
        placed[i] = min(placed[i], limit)
        limit = placed[i] - LINE
    return placed
