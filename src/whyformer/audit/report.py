"""The report of an audit: one self-contained HTML page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from whyformer.audit.findings import Audit, AuditColumn, Chart, Kind
from whyformer.render.charts.interval_chart import IntervalChart, IntervalPoint, draw_intervals
from whyformer.render.environment import read_text, render_template
from whyformer.render.html.fragment import unique_styles
from whyformer.render.html.page import build_fragment

FOLDER = "whyformer.audit/page"
LISTS = ("groups", "templates", "terms")  # settings that are lists: collapsed


def build_report(audit: Audit) -> str:
    """Return the page. The templates escape everything that users wrote."""
    examples = [
        (example.caption, build_fragment(example.attribution)) for example in audit.examples
    ]
    return render_template(
        f"{FOLDER}/report.jinja",
        audit=audit,
        styles=[read_text(f"{FOLDER}/report.css"), *unique_styles([one for _, one in examples])],
        tables=[
            (name, table, [table.format_row(row) for row in table.rows])
            for name, table in audit.tables.items()
        ],
        charts=[(chart.title, draw_intervals(interval_chart(chart))) for chart in audit.charts],
        examples=[(caption, fragment.element) for caption, fragment in examples],
        facts=_facts(audit.settings),
        lists={k: v for k in LISTS if (v := audit.settings.get(k))},
    )


def interval_chart(chart: Chart) -> IntervalChart:
    """Return the chart with its numbers written out."""
    kind: Kind = "percent" if chart.percent else "signed"
    points = []
    for point in chart.points:
        one = point.estimate
        value, low, high = (AuditColumn("", kind).format(v) for v in (one.value, one.low, one.high))
        known = math.isfinite(one.low) and math.isfinite(one.high)
        points.append(
            IntervalPoint(
                point.label,
                f"{value} [{low}, {high}]",
                one.value,
                one.low,
                one.high,
                clear=chart.zero and known and one.clear,
            )
        )
    return IntervalChart(chart.title, tuple(points), chart.percent)


def _facts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The settings that fit on one line."""
    found = []
    for name, value in settings.items():
        if name in LISTS or value is None:
            continue
        if isinstance(value, Mapping):
            value = ", ".join(f"{key} {part}" for key, part in value.items())
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        elif isinstance(value, bool):
            value = "yes" if value else "no"
        found.append((name, str(value)))
    return found
