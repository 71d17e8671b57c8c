"""A recommendation as a web page, a picture and a terminal table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import StringIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from whyformer.attribution.characters import hide_controls
from whyformer.evaluation.formatting import ARROWS, NOTHING, count_text, interval_text, number_text
from whyformer.recommend.recommendation import MeasuredValue, MethodRow, Recommendation
from whyformer.render.charts.interval_chart import IntervalChart, IntervalPoint, draw_intervals
from whyformer.render.charts.interval_picture import draw_interval_picture
from whyformer.render.environment import read_text, render_template

FOLDER = "whyformer.recommend/page"
WIDTH = 150  # characters of the text for a terminal
GAP, OUTCOME = 2, 16  # characters between columns, and for the last column


# -- what all views show ---------------------------------------------------------------------------


def headings(found: Recommendation) -> list[str]:
    """The columns of the table."""
    return ["method", *(_heading(found, one) for one in found.measures), *COLUMNS]


COLUMNS = ("behind", "conserves", "ms", "samples", "outcome")


def cells(found: Recommendation, row: MethodRow, intervals: bool = True) -> list[str]:
    """One line of the table as text, with or without the intervals of the measures."""
    values = [_cell(_value(row, measure), intervals) for measure in found.measures]
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
    """What became of a method: "recommended", "level", when it was worse, or why it left."""
    if row.outcome != "dropped":
        return row.outcome
    return f"worse, round {row.round}" if math.isfinite(row.p) else hide_controls(row.reason)


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


def _cell(one: MeasuredValue | None, with_interval: bool = True) -> str:
    if one is None:
        return NOTHING
    ends = interval_text(one.low, one.high) if with_interval else ""
    return f"{number_text(one.value)} {ends}".strip()


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
    "Means over the samples that a method was measured on, with 95 % intervals. Behind: how far the"
    " mean of all measures, each divided by its standard deviation, is behind that of the best."
    " Conserves: scores and sinks add up to the output. ms: milliseconds per sample. Level: not"
    " significantly worse than the best."
)


@dataclass(frozen=True)
class _FittingTable:
    """The table for a rich console: without intervals, or without less needed columns, to fit."""

    found: Recommendation

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        found = self.found
        lines = [headings(found), *(cells(found, row) for row in found.rows)]
        short = [headings(found), *(cells(found, row, intervals=False) for row in found.rows)]
        few = [[*line[: -len(COLUMNS)], line[-len(COLUMNS)], line[-1]] for line in short]
        fitting = [one for one in (lines, short) if _width(one) <= options.max_width]
        yield _table(found, fitting[0] if fitting else few, narrow=not fitting)


def _width(lines: Sequence[Sequence[str]]) -> int:
    """Characters of the table, if only the outcome may be wrapped."""
    columns = list(zip(*lines, strict=True))[:-1]
    return OUTCOME + sum(max(map(len, column)) + GAP for column in columns)


def _table(found: Recommendation, lines: Sequence[Sequence[str]], narrow: bool) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="dim")
    heads = lines[0]
    longest = max(len(line[0]) for line in lines)
    table.add_column(heads[0], overflow="fold", min_width=None if narrow else longest)
    for heading in heads[1:]:
        table.add_column(Text(heading), no_wrap=heading is not heads[-1])
    styles = {"recommended": "bold", "level": "", "dropped": "dim"}
    for row, line in zip(found.rows, lines[1:], strict=True):
        table.add_row(*map(Text, line), style=styles[row.outcome])
    return table


def terminal(found: Recommendation) -> RenderableType:
    """The sentence, the table and the notes, for a rich console."""
    sentence = Text(hide_controls(found.sentence), style="bold")
    notes = [Text(f"Note: {hide_controls(note)}") for note in found.notes]
    legend = Text(LEGEND, style="dim")
    return Group(sentence, Text(""), _FittingTable(found), Text(""), legend, *notes)


def terminal_text(found: Recommendation, width: int = WIDTH) -> str:
    """The same as plain text."""
    file = StringIO()
    Console(file=file, width=width, highlight=False).print(terminal(found))
    return file.getvalue()
