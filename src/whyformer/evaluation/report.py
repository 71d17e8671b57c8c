"""The report of an evaluation: one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from whyformer.evaluation.curves import Curves, curves, line_chart
from whyformer.evaluation.examples import HOW, HOW_AGREEMENT, Choice, ReportExample, choose_examples
from whyformer.evaluation.matrix import AGREEING, AGREEMENT, Matrix, agreement, divided
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import Bootstrap, Figure, bootstrap, summary
from whyformer.evaluation.tables import intervals
from whyformer.evaluation.wording import (
    ALIKE,
    ARROWS,
    convention,
    counted,
    explained,
    facts,
    part,
    said,
    shown,
    spread,
    versions,
    visible,
)
from whyformer.render.charts.line_chart import FEW, draw_lines, line_colours
from whyformer.render.environment import read_text, render_template
from whyformer.render.html.fragment import Fragment, unique_scripts, unique_styles
from whyformer.render.html.page import build_fragment

FOLDER = "whyformer.evaluation/templates"

__all__ = ["Choice", "ReportExample", "build_report", "choose_examples"]

SKIPPED = 50  # skipped samples that are listed, at most


def build_report(
    results: Results,
    examples: Sequence[ReportExample] = (),
    figures: Sequence[Figure] | None = None,
) -> str:
    """Return the page with tables, curves, agreement, examples and settings.

    Args:
        results: The results of an evaluation.
        examples: Samples to show, with their attributions.
        figures: The summary of `results`, if it is already known.
    """
    figures = summary(results) if figures is None else figures
    how = figures[0].how if figures else bootstrap(results)
    groups = _group_examples(results, examples)
    fragments = [
        fragment
        for group in groups
        for _, found in group.sides
        for one in found
        for _, _, fragment in one.columns
    ]
    settings = results.settings
    known = dict(facts(results))
    return render_template(
        f"{FOLDER}/report.jinja",
        **_HELPERS,
        title=f"Evaluation of {known['model']}" if "model" in known else "Evaluation",
        facts=facts(results),
        targets=[_Target.of(results, figures, target, how) for target in _targets(figures)],
        examples=groups,
        metrics=[(name, part(part(settings, "metrics"), name)) for name in _names(figures)],
        methods=[
            (visible(label), part(part(settings, "methods"), label))
            for label in part(settings, "methods")
        ],
        skipped=_skipped(settings),
        command=said(settings.get("command") or ""),
        versions=versions(results),
        settings=json.dumps(settings, indent=2, default=str, ensure_ascii=False),
        how=how,
        how_chosen=HOW,
        # Style and script of the examples are in the page once, not in each example.
        styles=[
            read_text(f"{FOLDER}/report.css") + line_colours(".report"),
            *unique_styles(fragments),
        ],
        scripts=[read_text(f"{FOLDER}/report.js"), *unique_scripts(fragments)],
    )


def _targets(figures: Sequence[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.target for figure in figures))


def _names(figures: Sequence[Figure]) -> list[str]:
    """The metrics of the run; agreement between methods counts once."""
    names: dict[str, str] = {}
    for figure in figures:
        agrees = figure.metric.startswith(AGREEMENT)
        names.setdefault(AGREEMENT if agrees else figure.metric, figure.metric)
    return list(names.values())


def _skipped(settings: Mapping[str, Any]) -> list[str]:
    skipped = part(settings, "data").get("skipped")
    if not isinstance(skipped, list | tuple):
        return []
    more = [f"and {len(skipped) - SKIPPED} more"] if len(skipped) > SKIPPED else []
    return [*(said(one) for one in skipped[:SKIPPED]), *more]


# -- one target ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    """What the page shows of one target."""

    name: str
    figures: list[Figure]
    matrix: Matrix | None
    lines: list[tuple[Figure, Curves]]

    @classmethod
    def of(
        cls, results: Results, figures: Sequence[Figure], target: str, how: Bootstrap
    ) -> _Target:
        """Return the part of the run with this target."""
        measured, agreeing = divided(figures, target)
        lines = [(figure, curves(results, figure.metric, target, how)) for figure in measured]
        return cls(
            target,
            measured,
            agreement(agreeing) if agreeing else None,
            [(figure, found) for figure, found in lines if found is not None],
        )

    @property
    def methods(self) -> list[str]:
        """The methods, in the order of the run."""
        return list(dict.fromkeys(row.method for f in self.figures for row in f.rows))


def finding(figure: Figure) -> tuple[list[str], list[str]]:
    """Return the best methods by a metric, and those not significantly different from them."""
    best = [visible(row.method) for row in figure.rows if row.best]
    return best, [visible(row.method) for row in figure.rows if row.alike]


def bar(figure: Figure, method: str) -> tuple[float, float, float] | None:
    """Return (low, mean, high) of a method as places in the cell, 0..100; None if not known."""
    row, (start, end) = figure.by_method.get(method), figure.ends
    if row is None or not isfinite(row.mean) or end <= start:
        return None

    def place(value: float) -> float:
        return 2 + 96 * (value - start) / (end - start)

    low, high = (row.low, row.high) if isfinite(row.low) else (row.mean, row.mean)
    return place(low), place(row.mean), place(high)


# -- examples --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    """The examples of one metric, with the value of each method."""

    metric: str
    target: str
    how: str  # how they were chosen, if not as usual
    sides: list[tuple[str, list[_ExampleColumns]]]


@dataclass(frozen=True)
class _ExampleColumns:
    example: ReportExample
    columns: list[tuple[str, str, Fragment]]  # method, its value, its attribution


def _group_examples(results: Results, examples: Sequence[ReportExample]) -> list[_Group]:
    wanted = {(e.target, e.metric, e.sample) for e in examples}
    values = {
        (row["target"], row["metric"], row["sample"], row["method"]): row["value"]
        for row in results.rows
        if (row["target"], row["metric"], row["sample"]) in wanted
    }

    def column(example: ReportExample, method: str) -> tuple[str, str, Fragment]:
        value = values.get((example.target, example.metric, example.sample, method))
        told = "" if value is None else shown(value)
        return visible(method), told, build_fragment(example.attributions[method])

    groups: dict[tuple[str, str], dict[str, list[_ExampleColumns]]] = {}
    for example in examples:
        sides = groups.setdefault((example.target, example.metric), {"best": [], "worst": []})
        columns = [column(example, method) for method in example.attributions]
        sides[example.kind].append(_ExampleColumns(example, columns))
    return [
        _Group(
            metric,
            target,
            HOW_AGREEMENT if metric == AGREEING else "",
            [(_side(results, metric, kind), found) for kind, found in sides.items() if found],
        )
        for (target, metric), sides in groups.items()
    ]


def _side(results: Results, metric: str, kind: str) -> str:
    """The heading of the best or worst examples of a metric."""
    better = part(part(results.settings, "metrics"), metric).get("better")
    if metric == AGREEING:
        return {"best": "The methods agree most", "worst": "The methods agree least"}[kind]
    if better not in ARROWS:
        return {"best": "Highest", "worst": "Lowest"}[kind]
    return kind.capitalize()


# -- what the template asks for --------------------------------------------------------------


_HELPERS: dict[str, Any] = {
    "ALIKE": ALIKE,
    "ARROWS": ARROWS,
    "FEW": FEW,
    "bar": bar,
    "convention": convention,
    "counted": counted,
    "draw_curves": lambda found, name: draw_lines(line_chart(found), name),
    "ends": lambda pair: " to ".join("open" if end is None else said(end) for end in pair),
    "explained": explained,
    "finding": finding,
    "intervals": intervals,
    "isfinite": isfinite,
    "said": said,
    "shown": shown,
    "spread": spread,
    "visible": visible,
    "AGREEMENT": AGREEMENT,
}
