"""A chart as places on a page: dots with whiskers, in units of an SVG of fixed width."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.audit.findings import AuditColumn, Chart, Kind

WIDTH, LABELS, FIGURES, LINE, FOOT = 860, 320, 220, 24, 26
SIGN = 8.2  # about the width of a letter, bold
LONGEST = int((LABELS - 12) / SIGN)


@dataclass(frozen=True)
class Mark:
    """One line of the chart."""

    label: str  # cut to the room there is
    whole: str
    said: str  # the figures in words
    y: float
    value: float
    low: float | None  # None where there is no interval
    high: float | None
    clear: bool


@dataclass(frozen=True)
class Drawing:
    """A chart ready to be written as SVG."""

    title: str
    width: int
    height: int
    bottom: float
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]
    zero: float | None  # where 0 is, if it is on the scale
    labels: int = LABELS
    figures: int = WIDTH - FIGURES + 12


def drawn(chart: Chart) -> Drawing:
    """The chart laid out on one scale that holds 0 and every interval."""
    ends = [
        end
        for point in chart.points
        for end in (point.estimate.value, point.estimate.low, point.estimate.high)
        if math.isfinite(end)
    ]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    room = (high - low) * 0.04 or 1.0
    low, high = low - room * (low < 0), high + room
    kind: Kind = "percent" if chart.percent else "signed"

    def x(value: float) -> float:
        return round(LABELS + (value - low) / (high - low) * (WIDTH - LABELS - FIGURES), 1)

    marks = []
    for number, point in enumerate(chart.points):
        one = point.estimate
        known = math.isfinite(one.low) and math.isfinite(one.high)
        value, least, most = (
            AuditColumn("", kind).format(v) for v in (one.value, one.low, one.high)
        )
        marks.append(
            Mark(
                label=_cut(point.label),
                whole=point.label,
                said=f"{value} [{least}, {most}]",
                y=LINE * (number + 0.5),
                value=x(one.value),
                low=x(one.low) if known else None,
                high=x(one.high) if known else None,
                clear=chart.zero and known and one.clear,
            )
        )
    bottom = LINE * len(marks)
    return Drawing(
        title=chart.title,
        width=WIDTH,
        height=bottom + FOOT,
        bottom=bottom,
        marks=tuple(marks),
        ticks=tuple((x(tick), _tick(tick, chart.percent)) for tick in _ticks(low, high)),
        zero=x(0.0) if low <= 0 <= high else None,
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _ticks(low: float, high: float) -> Sequence[float]:
    """Round numbers between the ends, three to six of them."""
    step = 10 ** math.floor(math.log10((high - low) / 3))
    step *= next(k for k in (1, 2, 5, 10) if (high - low) / (k * step) <= 5)
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _tick(value: float, percent: bool) -> str:
    text = f"{100 * value:.6g} %" if percent else f"{value:.6g}"
    return text.replace("-", "\N{MINUS SIGN}")
