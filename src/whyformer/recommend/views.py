"""A recommendation as a web page, a picture and a terminal table."""

from __future__ import annotations

import math
from io import StringIO

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whyformer.attribution.characters import hide_controls
from whyformer.evaluation.formatting import ARROWS, NOTHING, count_text, interval_text, number_text
from whyformer.recommend.recommendation import MeasuredValue, MethodRow, Recommendation
from whyformer.render.charts.interval_chart import IntervalChart, IntervalPoint, draw_intervals
from whyformer.render.charts.interval_picture import draw_interval_picture
from whyformer.render.environment import read_text, render_template

FOLDER = "whyformer.recommend/page"
WIDTH = 110  # characters of the text for a terminal


# -- what all views show ---------------------------------------------------------------------------


def headings(found: Recommendation) -> list[str]:
    """The columns of the table."""
    return ["method", *(_heading(found, one) for one in found.measures), *COLUMNS]


COLUMNS = ("behind", "conserves", "ms per sample", "samples", "outcome")


def cells(found: Recommendation, row: MethodRow) -> list[str]:
    """One line of the table as text."""
    values = [_cell(_value(row, measure)) for measure in found.measures]
    conserves = {True: "yes", False: "no", None: NOTHING}[row.conserves]
    return [
        hide_controls(row.label),
        *values,
        number_text(row.behind, 2),
        conserves,
        number_text(1000 * row.seconds, 1),
        str(row.samples),
        outcome_text(row),
    ]


def outcome_text(row: MethodRow) -> str:
    """What became of a method: "recommended", "level", or when and why it was dropped."""
    if row.outcome != "dropped":
        return row.outcome
    reason = hide_controls(row.reason)
    return f"{reason}, round {row.round}" if math.isfinite(row.p) else reason


def interval_charts(found: Recommendation) -> list[IntervalChart]:
    """One chart per measure: the recommended method marked, dropped ones muted."""
    rows = [row for row in found.rows if row.values]
    return [
        IntervalChart(
            _heading(found, measure), tuple(_point(row, measure) for row in rows), zero=False
        )
        for measure in found.measures
    ]


def _point(row: MethodRow, measure: str) -> IntervalPoint:
    one = _value(row, measure)
    label = f"{row.label}, round {row.round}" if row.outcome == "dropped" else row.label
    value, low, high = (one.value, one.low, one.high) if one else (math.nan,) * 3
    chosen = row.outcome == "recommended"
    muted = row.outcome == "dropped"
    return IntervalPoint(label, _cell(one), value, low, high, clear=chosen, muted=muted)


def _value(row: MethodRow, measure: str) -> MeasuredValue | None:
    return next((one for one in row.values if one.measure == measure), None)


def _cell(one: MeasuredValue | None) -> str:
    if one is None:
        return NOTHING
    return f"{number_text(one.value)} {interval_text(one.low, one.high)}".strip()


def _heading(found: Recommendation, measure: str) -> str:
    one = next((value for row in found.rows if (value := _value(row, measure))), None)
    return f"{measure} {ARROWS[one.better] if one else ''}".strip()


def _summary(found: Recommendation) -> str:
    return (
        f"{hide_controls(found.model)}: {count_text(len(found.rows), 'method')},"
        f" {count_text(found.samples, 'sample')} in {count_text(found.rounds, 'round')}"
    )


# -- views -----------------------------------------------------------------------------------------


def picture(found: Recommendation, kind: str) -> bytes:
    """The charts side by side, as PNG or SVG."""
    return draw_interval_picture(interval_charts(found), kind, _summary(found))


def html_page(found: Recommendation) -> str:
    """A self-contained page."""
    style = read_text(f"{FOLDER}/page.css")
    return render_template(f"{FOLDER}/page.jinja", style=style, **_page_values(found))


def html_fragment(found: Recommendation) -> str:
    """The sentence and the table, for a notebook."""
    return render_template(f"{FOLDER}/fragment.jinja", **_page_values(found))


def _page_values(found: Recommendation) -> dict[str, object]:
    return {
        "found": found,
        "title": f"Which method explains {hide_controls(found.model)} best?",
        "summary": _summary(found),
        "headings": headings(found),
        "rows": [(row.outcome, cells(found, row)) for row in found.rows],
        "charts": [(chart.title, draw_intervals(chart)) for chart in interval_charts(found)],
        "legend": LEGEND,
        "facts": [
            ("model", found.model),
            ("data", found.data),
            ("samples", found.samples),
            ("rounds", found.rounds),
            ("seed", found.seed),
            ("seconds", number_text(found.seconds, 1)),
        ],
    }


LEGEND = (
    "Mean and 95 % interval over the samples that a method was measured on. Behind: how far its"
    " mean of all measures, each divided by its standard deviation, is behind that of the best."
    " Conserves: scores and sinks add up to the output."
)


def terminal(found: Recommendation) -> RenderableType:
    """The sentence, the table and the notes, for a rich console."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for i, heading in enumerate(headings(found)):
        table.add_column(Text(heading), no_wrap=i == 0)
    styles = {"recommended": "bold", "level": "", "dropped": "dim"}
    for row in found.rows:
        table.add_row(*map(Text, cells(found, row)), style=styles[row.outcome])
    notes = [Text(f"Note: {note}") for note in found.notes]
    sentence = Text(hide_controls(found.sentence), style="bold")
    return Group(sentence, Text(""), table, Text(""), Text(LEGEND, style="dim"), *notes)


def terminal_text(found: Recommendation, width: int = WIDTH) -> str:
    """The same as plain text."""
    file = StringIO()
    Console(file=file, width=width, highlight=False).print(terminal(found))
    return file.getvalue()
