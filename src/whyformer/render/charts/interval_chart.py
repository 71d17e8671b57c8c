"""Interval charts as SVG: one dot with a whisker per line, all on one scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from whyformer.render.charts.axis import cut_label, tick_text, ticks

WIDTH, LABELS, FIGURES, LINE, FOOT = 860, 320, 220, 24, 26  # wider if a label needs more room
LETTER = 8.2  # about the width of a bold letter
LONGEST = 60  # letters of a label: room for a method with its options


@dataclass(frozen=True)
class IntervalPoint:
    """A value and its interval; NaN ends if there is no interval.

    `text` is the value and its interval in words, `clear` marks an interval without 0, `muted`
    a point of less interest.
    """

    label: str
    text: str
    value: float
    low: float
    high: float
    clear: bool = False
    muted: bool = False


@dataclass(frozen=True)
class IntervalChart:
    """Values with their intervals on one scale, which includes 0 unless `zero` is False."""

    title: str
    points: tuple[IntervalPoint, ...]
    percent: bool = False
    zero: bool = True

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and highest number of the scale, with a little room."""
        known = [v for p in self.points for v in (p.value, p.low, p.high) if math.isfinite(v)]
        known += [0.0] if self.zero or not known else []
        low, high = min(known), max(known)
        room = (high - low) * 0.04 or 1.0
        return low - room * (low < 0 or not self.zero), high + room


def draw_intervals(chart: IntervalChart) -> Markup:
    """Return the chart as an SVG element. Colours are set by class."""
    low, high = chart.ends
    bottom = LINE * len(chart.points)
    longest = max((len(point.label) for point in chart.points), default=0)
    labels = max(LABELS, round(LETTER * min(longest, LONGEST)) + 12)
    width = WIDTH - LABELS + labels

    def x(value: float) -> float:
        return round(labels + (value - low) / (high - low) * (WIDTH - LABELS - FIGURES), 1)

    head = Markup(
        '<svg viewBox="0 0 {} {}" role="img" aria-label="{}; the figures are in the tables below">'
    ).format(width, bottom + FOOT, chart.title)
    grid = [
        Markup(
            '<line class="grid" x1="{0}" x2="{0}" y1="0" y2="{1}"/>'
            '<text class="axis" x="{0}" y="{2}" text-anchor="middle">{3}</text>'
        ).format(x(tick), bottom, bottom + 16, tick_text(tick, chart.percent))
        for tick in ticks(low, high)
    ]
    line = Markup('<line class="zero" x1="{0}" x2="{0}" y1="0" y2="{1}"/>')
    zero = line.format(x(0.0), bottom) if low <= 0 <= high else Markup("")
    points = [_point(point, LINE * (i + 0.5), x, labels) for i, point in enumerate(chart.points)]
    return Markup("\n").join([head, *grid, zero, *points, Markup("</svg>")])


def _point(point: IntervalPoint, y: float, x: Callable[[float], float], labels: int) -> Markup:
    known = math.isfinite(point.low) and math.isfinite(point.high)
    whisker = Markup('<line class="whisker" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    return Markup(
        "<g{}><title>{}: {}</title>"
        '<text x="{}" y="{}" text-anchor="end">{}</text>{}'
        '<circle class="dot" cx="{}" cy="{}" r="4.5"/><text x="{}" y="{}">{}</text></g>'
    ).format(
        Markup(' class="clear"' if point.clear else ' class="muted"' if point.muted else ""),
        point.label,
        point.text,
        labels - 12,
        y + 4,
        cut_label(point.label, LONGEST),
        whisker.format(x(point.low), x(point.high), y, y) if known else "",
        x(point.value),
        y,
        WIDTH - LABELS + labels - FIGURES + 12,
        y + 4,
        point.text,
    )
