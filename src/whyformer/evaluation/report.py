"""The report of a run: one HTML page that asks nobody for anything."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import resources
from math import isfinite
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from whyformer.attribution import Attribution, views
from whyformer.evaluation.agreement_matrix import (
    AGREEING,
    AGREEMENT,
    AgreementMatrix,
    agreement_matrix,
    split_agreement,
)
from whyformer.evaluation.curves import DARK, FEW, LIGHT, Curves, curves
from whyformer.evaluation.drawing import drawing
from whyformer.evaluation.examples import HOW, HOW_AGREEMENT, Choice, Example, chosen
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import MetricSummary, bootstrap_of, summary
from whyformer.evaluation.tables import interval_note
from whyformer.evaluation.wording import (
    ALIKE,
    ARROWS,
    convention_text,
    count_text,
    interval_text,
    number_text,
    package_versions,
    run_facts,
    setting_text,
    settings_group,
    target_title,
    visible,
)
from whyformer.statistics.bootstrap import Bootstrap

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["Choice", "Example", "chosen", "report"]

SKIPPED = 50  # samples that were left out, listed at most


def report(
    results: Results,
    examples: Sequence[Example] = (),
    figures: Sequence[MetricSummary] | None = None,
) -> str:
    """The page: tables, curves, agreement, examples, and how everything was taken."""
    figures = summary(results) if figures is None else figures
    how = figures[0].how if figures else bootstrap_of(results)
    shown_examples = _Drawn(examples)
    settings, script = results.settings, _text("report.js")
    known = dict(run_facts(results))
    scripts = [script, *shown_examples.scripts]
    return (
        _environment()
        .get_template("report.jinja")
        .render(
            title=f"Evaluation of {known['model']}" if "model" in known else "Evaluation",
            facts=run_facts(results),
            targets=[_Target.of(results, figures, target, how) for target in _targets(figures)],
            examples=_grouped(results, examples, shown_examples),
            metrics=[
                (name, settings_group(settings_group(settings, "metrics"), name))
                for name in _names(figures)
            ],
            methods=[
                (visible(label), settings_group(settings_group(settings, "methods"), label))
                for label in settings_group(settings, "methods")
            ],
            skipped=_skipped(settings),
            command=setting_text(settings.get("command") or ""),
            versions=package_versions(results),
            settings=json.dumps(settings, indent=2, default=str, ensure_ascii=False),
            how=how,
            how_chosen=HOW,
            digests=[_digest(one) for one in scripts],
            styles=[_text("report.css") + _colours(), *shown_examples.styles],
            scripts=scripts,
        )
    )


def _targets(figures: Sequence[MetricSummary]) -> list[str]:
    return list(dict.fromkeys(figure.target for figure in figures))


def _names(figures: Sequence[MetricSummary]) -> list[str]:
    """The metrics that were measured, agreement with others only once."""
    names: dict[str, str] = {}
    for figure in figures:
        agrees = figure.metric.startswith(AGREEMENT)
        names.setdefault(AGREEMENT if agrees else figure.metric, figure.metric)
    return list(names.values())


def _skipped(settings: Mapping[str, Any]) -> list[str]:
    skipped = settings_group(settings, "data").get("skipped")
    if not isinstance(skipped, list | tuple):
        return []
    more = [f"and {len(skipped) - SKIPPED} more"] if len(skipped) > SKIPPED else []
    return [*(setting_text(one) for one in skipped[:SKIPPED]), *more]


# -- one explained class ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Target:
    """What the page shows of one explained class."""

    name: str
    figures: list[MetricSummary]
    matrix: AgreementMatrix | None
    lines: list[tuple[MetricSummary, Curves]]

    @classmethod
    def of(
        cls, results: Results, figures: Sequence[MetricSummary], target: str, how: Bootstrap
    ) -> _Target:
        """The part of the run that explains this class."""
        measured, agreeing = split_agreement(figures, target)
        lines = [(figure, curves(results, figure.metric, target, how)) for figure in measured]
        return cls(
            target,
            measured,
            agreement_matrix(agreeing) if agreeing else None,
            [(figure, found) for figure, found in lines if found is not None],
        )

    @property
    def methods(self) -> list[str]:
        """The methods of the table, in the order of the run."""
        return list(dict.fromkeys(row.method for f in self.figures for row in f.rows))


def finding(figure: MetricSummary) -> tuple[list[str], list[str]]:
    """The best methods by a metric, and those that are not told apart from them."""
    best = [visible(row.method) for row in figure.rows if row.best]
    return best, [visible(row.method) for row in figure.rows if row.alike]


def bar(figure: MetricSummary, method: str) -> tuple[float, float, float] | None:
    """(low, mean, high) of a method as shares of the cell, 0..100; None where nothing is known."""
    row, (start, end) = figure.by_method.get(method), figure.ends
    if row is None or not isfinite(row.mean) or end <= start:
        return None

    def place(value: float) -> float:
        return 2 + 96 * (value - start) / (end - start)

    low, high = (row.low, row.high) if isfinite(row.low) else (row.mean, row.mean)
    return place(low), place(row.mean), place(high)


# -- examples --------------------------------------------------------------------------------

# A fragment of the HTML view: its style, what it shows, and a script where it has one.
_FRAGMENT = re.compile(
    r'<div class="whyformer cell"><style>(.*?)</style>(.*?)(?:<script>(.*)</script>)?</div>', re.S
)


class _Drawn:
    """Attributions drawn by the HTML view; style and script stand once in the page, not in each."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self.styles: list[str] = []
        self.scripts: list[str] = []
        self._bodies: dict[int, Markup] = {}
        for example in examples:
            for attribution in example.attributions.values():
                self._bodies[id(attribution)] = self._body(attribution)

    def __getitem__(self, attribution: Attribution) -> Markup:
        return self._bodies[id(attribution)]

    def _body(self, attribution: Attribution) -> Markup:
        fragment = views["html"].fragment(attribution)
        whole = _FRAGMENT.fullmatch(fragment)
        if whole is None:
            raise ValueError("the HTML view's fragment is no longer style, samples and script")
        style, body, script = whole.groups()
        for kept, one in ((self.styles, style), (self.scripts, script)):
            if one and one not in kept:
                kept.append(one)
        return Markup('<div class="whyformer cell">{}</div>').format(Markup(body))


@dataclass(frozen=True)
class _Group:
    """The examples of one metric, with what each method got on them."""

    metric: str
    target: str
    how: str  # they were chosen, where that is not as everywhere
    sides: list[tuple[str, list[_Shown]]]


@dataclass(frozen=True)
class _Shown:
    example: Example
    columns: list[tuple[str, str, Markup]]  # method, its value, its attribution


def _grouped(results: Results, examples: Sequence[Example], drawn: _Drawn) -> list[_Group]:
    wanted = {(e.target, e.metric, e.sample) for e in examples}
    values = {
        (row["target"], row["metric"], row["sample"], row["method"]): row["value"]
        for row in results.rows
        if (row["target"], row["metric"], row["sample"]) in wanted
    }

    def column(example: Example, method: str) -> tuple[str, str, Markup]:
        value = values.get((example.target, example.metric, example.sample, method))
        told = "" if value is None else number_text(value)
        return visible(method), told, drawn[example.attributions[method]]

    groups: dict[tuple[str, str], dict[str, list[_Shown]]] = {}
    for example in examples:
        sides = groups.setdefault((example.target, example.metric), {"best": [], "worst": []})
        columns = [column(example, method) for method in example.attributions]
        sides[example.kind].append(_Shown(example, columns))
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
    """What the best and the worst are called where no value is better than another."""
    better = settings_group(settings_group(results.settings, "metrics"), metric).get("better")
    if metric == AGREEING:
        return {"best": "The methods agree most", "worst": "The methods agree least"}[kind]
    if better not in ARROWS:
        return {"best": "Highest", "worst": "Lowest"}[kind]
    return kind.capitalize()


# -- what the template asks for --------------------------------------------------------------


def _digest(script: str) -> str:
    """What the page's policy allows to run: this script and no other."""
    return "sha256-" + base64.b64encode(sha256(script.encode()).digest()).decode()


@cache
def _text(name: str) -> str:
    return resources.files("whyformer.evaluation").joinpath(f"templates/{name}").read_text("utf-8")


def _colours() -> str:
    """The colours of the lines in either theme."""

    def rules(colours: Sequence[str]) -> str:
        return "".join(f".report .c{i}{{--c:{colour}}}" for i, colour in enumerate(colours))

    return f"{rules(LIGHT)}\n@media (prefers-color-scheme:dark){{{rules(DARK)}}}"


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("whyformer.evaluation"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        ALIKE=ALIKE,
        ARROWS=ARROWS,
        FEW=FEW,
        bar=bar,
        convention=convention_text,
        counted=count_text,
        drawing=drawing,
        ends=lambda pair: " to ".join("open" if end is None else setting_text(end) for end in pair),
        explained=target_title,
        finding=finding,
        intervals=interval_note,
        isfinite=isfinite,
        said=setting_text,
        shown=number_text,
        spread=interval_text,
        visible=visible,
        AGREEMENT=AGREEMENT,
    )
    return environment
