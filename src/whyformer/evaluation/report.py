"""The report of an evaluation: one self-contained HTML page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whyformer.evaluation.agreement_matrix import AGREEING, AGREEMENT
from whyformer.evaluation.examples import HOW, HOW_AGREEMENT, Choice, ReportExample, choose_examples
from whyformer.evaluation.formatting import (
    ALIKE,
    ARROWS,
    convention_text,
    failure_lines,
    number_text,
    package_versions,
    run_facts,
    setting_text,
    settings_group,
    target_title,
    visible,
)
from whyformer.evaluation.report_target import report_target
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import MetricSummary, bootstrap_of, summary
from whyformer.evaluation.tables import interval_note
from whyformer.render.charts.line_chart import FEW, line_colours
from whyformer.render.environment import read_text, render_template
from whyformer.render.html.fragment import Fragment, unique_scripts, unique_styles
from whyformer.render.html.page import build_fragment

FOLDER = "whyformer.evaluation/templates"

__all__ = ["Choice", "ReportExample", "build_report", "choose_examples"]

SKIPPED = 50  # skipped samples that are listed, at most


def build_report(
    results: Results,
    examples: Sequence[ReportExample] = (),
    figures: Sequence[MetricSummary] | None = None,
) -> str:
    """Return the page with tables, curves, agreement, examples and settings.

    Args:
        results: The results of an evaluation.
        examples: Samples to show, with their attributions.
        figures: The summary of `results`, if it is already known.
    """
    figures = summary(results) if figures is None else figures
    how = figures[0].how if figures else bootstrap_of(results)
    targets = list(dict.fromkeys(figure.target for figure in figures))
    groups = _example_groups(results, examples, name_target=len(targets) > 1)
    fragments = [
        fragment
        for group in groups
        for _, shown in group.sides
        for one in shown
        for _, _, fragment in one.columns
    ]
    facts = run_facts(results)
    model = dict(facts).get("model")
    settings = results.settings
    return render_template(
        f"{FOLDER}/report.jinja",
        title="Evaluation" if model is None else f"Evaluation of {model}",
        facts=facts,
        targets=[
            report_target(results, figures, target, how, f"curve-{i}")
            for i, target in enumerate(targets)
        ],
        examples=groups,
        metrics=[
            _convention(name, settings_group(settings_group(settings, "metrics"), name))
            for name in _metric_names(figures)
        ],
        methods=_method_options(settings),
        skipped=_skipped_samples(settings),
        failures=failure_lines(results, SKIPPED),
        command=setting_text(settings.get("command") or ""),
        versions=package_versions(results),
        settings=json.dumps(settings, indent=2, default=str, ensure_ascii=False),
        interval_note=interval_note(how),
        level=f"{100 * how.level:g}",
        how_chosen=HOW,
        few=FEW,
        alike=ALIKE,
        # Style and script of the examples are in the page once, not in each example.
        styles=[
            read_text(f"{FOLDER}/report.css") + line_colours(".report"),
            *unique_styles(fragments),
        ],
        scripts=[read_text(f"{FOLDER}/report.js"), *unique_scripts(fragments)],
    )


# -- how it was measured ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Convention:
    """How one metric was computed; empty texts are not shown."""

    name: str
    title: str
    convention: str
    better: str
    range: str
    paper: str


def _convention(name: str, known: Mapping[str, Any]) -> _Convention:
    better = known.get("better")
    ends = known.get("range") or ()
    return _Convention(
        name=AGREEING if name.startswith(AGREEMENT) else visible(name),
        title=visible(known.get("title") or ""),
        convention=convention_text(known),
        better=str(better).capitalize() if better in ARROWS else "Neither",
        range=" to ".join("open" if end is None else setting_text(end) for end in ends),
        paper=visible(known.get("paper") or ""),
    )


def _metric_names(figures: Sequence[MetricSummary]) -> list[str]:
    """The metrics of the run; agreement between methods counts once."""
    names: dict[str, str] = {}
    for figure in figures:
        agrees = figure.metric.startswith(AGREEMENT)
        names.setdefault(AGREEMENT if agrees else figure.metric, figure.metric)
    return list(names.values())


def _skipped_samples(settings: Mapping[str, Any]) -> list[str]:
    skipped = settings_group(settings, "data").get("skipped")
    if not isinstance(skipped, list | tuple):
        return []
    more = [f"and {len(skipped) - SKIPPED} more"] if len(skipped) > SKIPPED else []
    return [*(setting_text(one) for one in skipped[:SKIPPED]), *more]


def _method_options(settings: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(label, method, options) of every method of the run."""
    methods = settings_group(settings, "methods")
    found = [(label, settings_group(methods, label)) for label in methods]
    return [
        (
            visible(label),
            setting_text(known.get("method") or visible(label)),
            setting_text(known.get("options") or ""),
        )
        for label, known in found
    ]


# -- examples --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _ExampleGroup:
    """The examples of one metric: the best and the worst samples, each under a heading."""

    heading: str
    how: str  # how they were chosen, if not as usual
    sides: list[tuple[str, list[_ShownExample]]]


@dataclass(frozen=True)
class _ShownExample:
    """One sample with its value by the leading method."""

    sample: str
    value: str
    columns: list[tuple[str, str, Fragment]]  # method, its value, its attribution


def _example_groups(
    results: Results, examples: Sequence[ReportExample], name_target: bool
) -> list[_ExampleGroup]:
    """The examples by target and metric; `name_target` puts the target into the headings."""
    keys = {(e.target, e.metric, e.sample) for e in examples}
    values = {
        (row["target"], row["metric"], row["sample"], row["method"]): row["value"]
        for row in results.rows
        if (row["target"], row["metric"], row["sample"]) in keys
    }

    def column(example: ReportExample, method: str) -> tuple[str, str, Fragment]:
        value = values.get((example.target, example.metric, example.sample, method))
        text = "" if value is None else number_text(value)
        return visible(method), text, build_fragment(example.attributions[method])

    groups: dict[tuple[str, str], dict[str, list[_ShownExample]]] = {}
    for example in examples:
        sides = groups.setdefault((example.target, example.metric), {"best": [], "worst": []})
        columns = [column(example, method) for method in example.attributions]
        shown = _ShownExample(visible(example.sample), number_text(example.value), columns)
        sides[example.kind].append(shown)
    return [
        _ExampleGroup(
            visible(metric) + (f", {target_title(target).lower()}" if name_target else ""),
            HOW_AGREEMENT if metric == AGREEING else "",
            [(_side_title(results, metric, kind), shown) for kind, shown in sides.items() if shown],
        )
        for (target, metric), sides in groups.items()
    ]


def _side_title(results: Results, metric: str, kind: str) -> str:
    """The heading of the best or worst examples of a metric."""
    better = settings_group(settings_group(results.settings, "metrics"), metric).get("better")
    if metric == AGREEING:
        return {"best": "The methods agree most", "worst": "The methods agree least"}[kind]
    if better not in ARROWS:
        return {"best": "Highest", "worst": "Lowest"}[kind]
    return kind.capitalize()
