"""What the report shows of one target: findings, table, curves and agreement, as finished text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from markupsafe import Markup

from whyformer.evaluation.agreement_matrix import (
    AgreementMatrix,
    agreement_matrix,
    split_agreement,
)
from whyformer.evaluation.curves import Curves, curves, line_chart
from whyformer.evaluation.formatting import (
    ARROWS,
    convention_text,
    count_text,
    interval_text,
    number_text,
    target_title,
    visible,
)
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import MethodSummary, MetricSummary
from whyformer.render.charts.line_chart import draw_lines
from whyformer.statistics.bootstrap import Bootstrap

NAMED = 4  # methods that a finding names as not significantly different from the best


@dataclass(frozen=True)
class ReportFinding:
    """Which methods are the best by one metric, and which do not differ from them."""

    metric: str
    best: tuple[str, ...]
    mean: str  # of the best
    alike: tuple[str, ...]  # not significantly different from the best, the first few
    more: int  # how many others are not significantly different


@dataclass(frozen=True)
class ReportColumn:
    """The head and foot of one metric in the table."""

    metric: str
    title: str
    better: str
    arrow: str
    samples: str


@dataclass(frozen=True)
class ReportCell:
    """One method by one metric in the table."""

    value: float | None  # to sort by; None if it is not finite
    mean: str
    interval: str  # or the number of samples, if there is no interval
    best: bool
    alike: bool
    bar: tuple[str, str, str] | None  # low, mean and high as places in the cell, 0..100


@dataclass(frozen=True)
class ReportRow:
    """One method in the table; None where a metric was not measured."""

    method: str
    cells: tuple[ReportCell | None, ...]


@dataclass(frozen=True)
class ReportCurves:
    """The curves of one metric, as a chart and as numbers."""

    metric: str
    title: str  # empty if it is the metric's name
    chart: Markup
    convention: str
    steps: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]  # method, (mean, interval) per step


@dataclass(frozen=True)
class ReportAgreement:
    """The agreement of two methods."""

    mean: str
    interval: str
    is_negative: bool
    share: str  # strength of the colour, in percent


@dataclass(frozen=True)
class ReportTarget:
    """What the page shows of one target; `agreement` is methods by methods."""

    title: str
    findings: tuple[ReportFinding, ...]
    columns: tuple[ReportColumn, ...]
    rows: tuple[ReportRow, ...]
    curves: tuple[ReportCurves, ...]
    agreement: tuple[tuple[str, tuple[ReportAgreement | None, ...]], ...]


def report_target(
    results: Results, figures: Sequence[MetricSummary], target: str, how: Bootstrap, name: str
) -> ReportTarget:
    """Return what the page shows of one target; `name` makes the ids of its charts unique."""
    measured, agreeing = split_agreement(figures, target)
    methods = list(dict.fromkeys(row.method for figure in measured for row in figure.rows))
    lines = [(figure, curves(results, figure.metric, target, how)) for figure in measured]
    charts = [(figure, found) for figure, found in lines if found is not None]
    return ReportTarget(
        title=target_title(target),
        findings=tuple(
            _finding(figure, figure.leader)
            for figure in measured
            if figure.leader is not None and len(methods) > 1
        ),
        columns=tuple(map(_column, measured)),
        rows=tuple(
            ReportRow(visible(method), tuple(_cell(figure, method) for figure in measured))
            for method in methods
        ),
        curves=tuple(
            _curves(figure, found, f"{name}-{i}") for i, (figure, found) in enumerate(charts)
        ),
        agreement=_agreement(agreement_matrix(agreeing)),
    )


def _finding(figure: MetricSummary, leader: MethodSummary) -> ReportFinding:
    alike = [visible(row.method) for row in figure.rows if row.alike]
    return ReportFinding(
        metric=visible(figure.metric),
        best=tuple(visible(row.method) for row in figure.rows if row.best),
        mean=number_text(leader.mean, figure.places),
        alike=tuple(alike[:NAMED]),
        more=max(0, len(alike) - NAMED),
    )


def _column(figure: MetricSummary) -> ReportColumn:
    return ReportColumn(
        metric=visible(figure.metric),
        title=visible(figure.title),
        better=figure.better,
        arrow=ARROWS.get(figure.better, ""),
        samples=count_text(max(row.n for row in figure.rows), "sample"),
    )


def _cell(figure: MetricSummary, method: str) -> ReportCell | None:
    row = figure.by_method.get(method)
    if row is None:
        return None
    samples = count_text(row.n, "sample") if row.n else "no samples"
    places = bar(figure, method)
    return ReportCell(
        value=row.mean if isfinite(row.mean) else None,
        mean=number_text(row.mean, figure.places),
        interval=interval_text(row.low, row.high, figure.places) or samples,
        best=row.best,
        alike=row.alike,
        bar=places and (f"{places[0]:.1f}", f"{places[1]:.1f}", f"{places[2]:.1f}"),
    )


def bar(figure: MetricSummary, method: str) -> tuple[float, float, float] | None:
    """Return (low, mean, high) of a method as places in the cell, 0..100; None if not known."""
    row, (start, end) = figure.by_method.get(method), figure.ends
    if row is None or not isfinite(row.mean) or end <= start:
        return None

    def place(value: float) -> float:
        return 2 + 96 * (value - start) / (end - start)

    low, high = (row.low, row.high) if isfinite(row.low) else (row.mean, row.mean)
    return place(low), place(row.mean), place(high)


def _curves(figure: MetricSummary, found: Curves, name: str) -> ReportCurves:
    places = found.places
    return ReportCurves(
        metric=visible(figure.metric),
        title=visible(figure.title) if figure.title != figure.metric else "",
        chart=draw_lines(line_chart(found), name),
        convention=convention_text(figure.known),
        steps=tuple(f"{step:g}" for step in found.steps),
        rows=tuple(
            (
                visible(line.name),
                tuple(
                    (number_text(mean, places), interval_text(low, high, places))
                    for mean, low, high in zip(line.mean, line.low, line.high, strict=True)
                ),
            )
            for line in found.lines
        ),
    )


def _agreement(
    matrix: AgreementMatrix,
) -> tuple[tuple[str, tuple[ReportAgreement | None, ...]], ...]:
    """(method, its agreement with every method), method by method."""
    return tuple(
        (visible(method), tuple(map(_agreement_cell, row)))
        for method, row in zip(matrix.names, matrix.rows, strict=True)
    )


def _agreement_cell(row: MethodSummary | None) -> ReportAgreement | None:
    if row is None or not isfinite(row.mean):
        return None
    return ReportAgreement(
        mean=number_text(row.mean, 2),
        interval=interval_text(row.low, row.high, 2),
        is_negative=row.mean < 0,
        share=f"{70 * min(abs(row.mean), 1):.0f}",
    )
