"""Interval charts as a picture: one panel per chart, one line per point, shared labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from io import BytesIO

from whyformer.attribution.characters import hide_controls
from whyformer.render.charts.axis import cut_label
from whyformer.render.charts.interval_chart import IntervalChart, IntervalPoint

LONGEST = 54  # letters of a label
DOT, CLEAR, MUTED, LINE = "#4a5568", "#a33a10", "#b4b9c2", "#dfe1e5"
QUIET = "#6b7280"  # the labels of muted points


def draw_interval_picture(
    charts: Sequence[IntervalChart], kind: str = "png", title: str = ""
) -> bytes:
    """Return the charts side by side as PNG or SVG.

    Args:
        charts: Charts with the same labels in the same order.
        kind: "png" or "svg".
        title: A line above the panels.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = len(charts[0].points)
    size = (2.6 + 2.5 * len(charts), 1.1 + 0.24 * rows)
    figure = Figure(figsize=size, dpi=160, facecolor="white", layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(charts), sharey=True, squeeze=False)[0]
    for panel, chart in zip(panels, charts, strict=True):
        for place, point in enumerate(chart.points):
            _draw_point(panel, point, place)
        low, high = chart.ends
        panel.set_xlim(low, high)
        if low <= 0 <= high:
            panel.axvline(0, color=DOT, linewidth=0.8, zorder=0)
        panel.set_title(hide_controls(chart.title), fontsize=9, parse_math=False)
        panel.grid(axis="x", color=LINE, linewidth=0.6)
        panel.set_axisbelow(True)
        panel.tick_params(labelsize=7.5, length=0)
        panel.spines[["top", "right", "left"]].set_visible(False)
    first = panels[0]
    first.set_ylim(rows - 0.4, -0.6)
    labels = [cut_label(hide_controls(point.label), LONGEST) for point in charts[0].points]
    first.set_yticks(range(rows), labels)
    for text, point in zip(first.get_yticklabels(), charts[0].points, strict=True):
        text.set_parse_math(False)
        text.set_color(CLEAR if point.clear else QUIET if point.muted else "black")
        text.set_fontweight("bold" if point.clear else "normal")
    if title:
        figure.suptitle(hide_controls(title), fontsize=10, x=0.01, ha="left", parse_math=False)
    # Without a date, the same chart is the same file.
    stamp = {"Software": None} if kind == "png" else {"Date": None, "Creator": None}
    file = BytesIO()
    with warnings.catch_warnings(), matplotlib.rc_context({"svg.hashsalt": "whyformer"}):
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(file, format=kind, metadata=stamp)
    return file.getvalue()


def _colour(point: IntervalPoint) -> str:
    return CLEAR if point.clear else MUTED if point.muted else DOT


def _draw_point(panel: object, point: IntervalPoint, place: int) -> None:
    if not math.isfinite(point.value):
        return
    colour = _colour(point)
    if math.isfinite(point.low) and math.isfinite(point.high):
        panel.plot([point.low, point.high], [place, place], color=colour, linewidth=1.6)  # type: ignore[attr-defined]
    panel.plot([point.value], [place], "o", color=colour, markersize=5)  # type: ignore[attr-defined]
