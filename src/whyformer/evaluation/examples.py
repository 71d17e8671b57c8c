"""The samples that a report shows: the best and worst of the leading method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from whyformer.attribution import Attribution
from whyformer.evaluation.agreement_matrix import AGREEING, AGREEMENT, split_agreement
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.summary import MetricSummary, summary, with_metric_settings

Kind = Literal["best", "worst"]

HOW = (
    "Best: the samples on which the method with the best mean is furthest ahead of another method,"
    " which is shown next to it. Worst: the samples on which it scores worst, next to the method"
    " whose value differs most."
)
HOW_AGREEMENT = (
    "The samples on which the methods agree most and least (mean over all pairs), each with the"
    " pair that agrees most or least."
)


@dataclass(frozen=True)
class Choice:
    """A sample to show, and the methods whose attributions to show."""

    metric: str
    target: str
    kind: Kind
    value: float
    sample: str
    methods: tuple[str, ...]

    def example(self, attributions: Mapping[str, Attribution]) -> ReportExample:
        """Return the example with these attributions, by method."""
        return ReportExample(
            self.metric, self.target, self.kind, self.value, self.sample, dict(attributions)
        )


@dataclass(frozen=True)
class ReportExample:
    """A sample with the attributions to show."""

    metric: str
    target: str
    kind: Kind
    value: float
    sample: str
    attributions: Mapping[str, Attribution]  # by method


def choose_examples(
    results: Results, per_side: int = 3, figures: Sequence[MetricSummary] | None = None
) -> list[Choice]:
    """Choose the best and worst samples of every target and metric.

    Args:
        results: The results of an evaluation.
        per_side: How many best and how many worst samples to choose.
        figures: The summary of `results`, if it is already known.

    Returns:
        The choices, best samples first, then the worst. No sample is both; if all values are
        equal, there is no worst. Agreement between methods counts as one metric, "agreement".
    """
    run = with_metric_settings(results)
    figures = summary(results) if figures is None else figures
    choices = []
    for target in run.targets:
        measured, agreeing = split_agreement(figures, target)
        for figure in measured:
            choices += _of_metric(run, figure, per_side)
        if agreeing:
            choices += _of_agreement(run, target, per_side)
    return choices


def _values(run: Results, cell: ResultKey) -> dict[str, float]:
    """The value of every sample that the metric counts."""
    score = run.score(cell)
    if score is None:
        return {}
    scored = zip(run.samples(cell), score.values.tolist(), score.counted.tolist(), strict=True)
    return {sample: value for sample, value, counts in scored if counts and math.isfinite(value)}


def _of_metric(run: Results, figure: MetricSummary, per_side: int) -> list[Choice]:
    measured = [row.method for row in figure.rows if math.isfinite(row.mean)]
    if not measured:
        return []
    leader = figure.leader.method if figure.leader else measured[0]
    values = {m: _values(run, ResultKey(m, figure.target, figure.metric)) for m in measured}
    own = values[leader]

    def difference(sample: str, method: str) -> float:
        return abs(values[method].get(sample, own[sample]) - own[sample])

    others = [method for method in measured if method != leader]
    differs = {s: max((difference(s, m) for m in others), default=0.0) for s in own}
    sign = -1 if figure.better == "lower" else 1

    def lead(sample: str, method: str) -> float:
        return sign * (own[sample] - values[method].get(sample, own[sample]))

    leads = {s: max((lead(s, m) for m in others), default=sign * own[s]) for s in own}
    choices = []
    for kind, sample in _sides(own, differs, leads, sign < 0, per_side):
        beside = [m for m in others if sample in values[m]]
        apart = lead if kind == "best" else difference
        most = max(beside, key=partial(apart, sample), default=None)
        methods = (leader,) if most is None else (leader, most)
        choices.append(Choice(figure.metric, figure.target, kind, own[sample], sample, methods))
    return choices


def _of_agreement(run: Results, target: str, per_side: int) -> list[Choice]:
    pairs: dict[str, dict[tuple[str, str], float]] = {}
    for cell in run.cells:
        other = cell.metric.removeprefix(AGREEMENT)
        if cell.target == target and cell.metric.startswith(AGREEMENT) and other != cell.method:
            for sample, value in _values(run, cell).items():
                pairs.setdefault(sample, {})[cell.method, other] = value
    means = {sample: sum(found.values()) / len(found) for sample, found in pairs.items()}

    def pair(kind: Kind, sample: str) -> tuple[str, str]:
        found = pairs[sample]
        return (max if kind == "best" else min)(found, key=lambda names: found[names])

    return [
        Choice(AGREEING, target, kind, means[sample], sample, pair(kind, sample))
        for kind, sample in _sides(means, {}, means, False, per_side)
    ]


def _sides(
    values: Mapping[str, float],
    differs: Mapping[str, float],
    leads: Mapping[str, float],
    lower: bool,
    per_side: int,
) -> list[tuple[Kind, str]]:
    """(side, sample): the samples with the widest lead, and those with the worst values.

    Among ties, those that differ most come first.
    """
    sign, order = -1 if lower else 1, list(values)
    if per_side < 1:
        return []

    ahead = sorted(order, key=lambda s: (-leads[s], -sign * values[s]))
    best = ahead[: min(per_side, len(order) - len(order) // 2)]
    behind = sorted(order, key=lambda s: (sign * values[s], -differs.get(s, 0.0)))
    worst = [s for s in behind if s not in best and values[s] != values[best[0]]][:per_side]
    return [*(("best", s) for s in best), *(("worst", s) for s in worst)]
