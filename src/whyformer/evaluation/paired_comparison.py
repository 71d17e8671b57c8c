"""Conclusions of an evaluation: who leads, who is level with the leader, and who beats whom."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import torch

from whyformer.evaluation.formatting import settings_group
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.summary import with_metric_settings
from whyformer.metrics.score import Score
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.statistics.paired import (
    PAIRED,
    Combine,
    PairedDifference,
    PairedDraws,
    holm,
    mean_of,
    ratio_of,
    redraw,
)

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Victory:
    """A method that is significantly better than another by one measure."""

    winner: str
    loser: str
    difference: PairedDifference  # in the measure's own direction: winner minus loser
    p: float  # corrected for all pairs of methods of the measure


@dataclass(frozen=True)
class MeasureConclusion:
    """All methods by one measure. Methods are compared on the samples that all of them have."""

    target: str
    metric: str
    better: str  # "higher" or "lower"
    samples: int
    means: Mapping[str, float]
    ranks: Mapping[str, int]  # 1 is the best; equal means share a rank
    best: str
    level_with_best: tuple[str, ...]  # the best, and those not significantly worse, by rank
    victories: tuple[Victory, ...]

    def beats(self, first: str, second: str) -> bool:
        """Whether the first method is significantly better than the second."""
        return any((one.winner, one.loser) == (first, second) for one in self.victories)


@dataclass(frozen=True)
class ComparedScores:
    """The scores of several methods by one measure on the same samples."""

    methods: tuple[str, ...]
    better: str
    samples: tuple[str, ...]
    scores: tuple[Score, ...]

    @property
    def counted(self) -> int:
        """How many samples count for every method."""
        return int(torch.stack([score.counted for score in self.scores]).all(0).sum())

    @property
    def sign(self) -> int:
        """1 if higher is better, else -1."""
        return 1 if self.better == "higher" else -1

    def combine(self) -> Combine:
        """How the samples are combined: means, or ratios of sums over samples."""
        shares = [score.shares for score in self.scores if score.shares is not None]
        if not shares:
            return mean_of(torch.stack([score.values for score in self.scores], 1))
        found, there = (torch.stack(side, 1) for side in zip(*shares, strict=True))
        return ratio_of(found, there)


def conclude(
    results: Results, bootstrap: Bootstrap = PAIRED, without: Collection[str] = ()
) -> list[MeasureConclusion]:
    """Return the conclusions of a run, one per target and measure that has a better direction.

    Every two methods are compared by a paired bootstrap over the samples that all methods have,
    and Holm's correction is for all pairs of one measure. The best is compared with the others by
    the same numbers. Measures with fewer than two methods or samples are left out.

    Args:
        results: The run.
        bootstrap: How many draws, and their seed.
        without: Measures that are left out.

    Example:
        >>> conclude(Results.read("run"))[0].best  # doctest: +SKIP
        'libragrad'
    """
    run = with_metric_settings(results)
    found = []
    for target in run.targets:
        for metric in run.metrics:
            if metric in without:
                continue
            scores = compared_scores(run, run.methods, target, metric)
            if scores is not None and scores.counted > 1:
                found.append(_conclusion(target, metric, scores, bootstrap))
    return found


def compared_scores(
    results: Results, methods: Sequence[str], target: str, metric: str
) -> ComparedScores | None:
    """The scores of the methods that have this measure, on their common samples.

    None if no direction is better, or if fewer than two methods have it.
    """
    known = settings_group(settings_group(results.settings, "metrics"), metric)
    better = known.get("better")
    scores: dict[str, Score] = {}
    places: dict[str, dict[str, int]] = {}
    for method in methods:
        key = ResultKey(method, target, metric)
        score = results.score(key)
        if score is not None and math.isfinite(score.mean):
            scores[method] = score
            places[method] = {sample: row for row, sample in enumerate(results.samples(key))}
    if better not in ("higher", "lower") or len(scores) < 2:
        return None
    first, *rest = places.values()
    common = tuple(sample for sample in first if all(sample in other for other in rest))
    rows = [scores[one].take([places[one][sample] for sample in common]) for one in scores]
    return ComparedScores(tuple(scores), better, common, tuple(rows))


def _conclusion(
    target: str, metric: str, scores: ComparedScores, bootstrap: Bootstrap
) -> MeasureConclusion:
    drawn = redraw(scores.combine(), len(scores.samples), bootstrap)
    merits = [scores.sign * float(value) for value in drawn.values]
    ranks = [1 + sum(other > merit for other in merits) for merit in merits]
    victories = _victories(scores.methods, merits, drawn)
    best = merits.index(max(merits))
    beaten = {one.loser for one in victories if one.winner == scores.methods[best]}
    order = sorted(range(len(ranks)), key=lambda i: ranks[i])
    return MeasureConclusion(
        target,
        metric,
        scores.better,
        scores.counted,
        dict(zip(scores.methods, drawn.values.tolist(), strict=True)),
        dict(zip(scores.methods, ranks, strict=True)),
        scores.methods[best],
        tuple(scores.methods[i] for i in order if scores.methods[i] not in beaten),
        victories,
    )


def _victories(
    methods: Sequence[str], merits: Sequence[float], drawn: PairedDraws
) -> tuple[Victory, ...]:
    """The significant differences of all pairs, the better method first."""
    pairs = [
        (i, j) if merits[i] >= merits[j] else (j, i)
        for i, j in combinations(range(len(methods)), 2)
    ]
    differences = [drawn.difference(i, j) for i, j in pairs]
    corrected = holm([difference.p for difference in differences])
    return tuple(
        Victory(methods[i], methods[j], difference, p)
        for (i, j), difference, p in zip(pairs, differences, corrected, strict=True)
        if p < SIGNIFICANT
    )


# -- several tasks ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaskConclusion:
    """The conclusions of one task: one model and its data, by one or several measures."""

    task: str
    measures: tuple[MeasureConclusion, ...]

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods of any measure."""
        return tuple(dict.fromkeys(name for one in self.measures for name in one.means))

    def beats(self, first: str, second: str) -> bool:
        """Whether the first method wins by some measure, and the second one by none."""
        wins = [any(one.beats(*pair) for one in self.measures) for pair in _both(first, second)]
        return wins[0] and not wins[1]

    def beaten_by(self, method: str) -> tuple[str, ...]:
        """The methods that beat this one."""
        return tuple(other for other in self.methods if self.beats(other, method))


@dataclass(frozen=True)
class MethodStanding:
    """One method over all tasks.

    Args:
        method: Its label.
        tasks: On how many tasks it was measured.
        first: On how many measures of these tasks no method has a better mean.
        level: On how many measures it is the best, or not significantly worse than the best.
        measures: How many measures there are.
        mean_rank: Its mean rank over the measures.
        beaten_on: The tasks on which some method beats it.
        rival: The method that beats it on the most tasks; "" if none does.
        rival_tasks: The tasks on which the rival beats it.
    """

    method: str
    tasks: int
    first: int
    level: int
    measures: int
    mean_rank: float
    beaten_on: tuple[str, ...]
    rival: str
    rival_tasks: tuple[str, ...]


def standings(tasks: Sequence[TaskConclusion]) -> list[MethodStanding]:
    """Return every method over all tasks: the least often beaten first, then by mean rank."""
    methods = dict.fromkeys(name for task in tasks for name in task.methods)
    found = [_standing(method, tasks) for method in methods]
    return sorted(found, key=lambda one: (len(one.rival_tasks), len(one.beaten_on), one.mean_rank))


def _standing(method: str, tasks: Sequence[TaskConclusion]) -> MethodStanding:
    measures = [one for task in tasks for one in task.measures if method in one.ranks]
    by_rival: dict[str, list[str]] = {}
    for task in tasks:
        for other in task.beaten_by(method):
            by_rival.setdefault(other, []).append(task.task)
    rival = max(by_rival, key=lambda other: len(by_rival[other]), default="")
    return MethodStanding(
        method,
        sum(method in task.methods for task in tasks),
        sum(one.ranks[method] == 1 for one in measures),
        sum(method in one.level_with_best for one in measures),
        len(measures),
        sum(one.ranks[method] for one in measures) / max(1, len(measures)),
        tuple(task.task for task in tasks if task.beaten_by(method)),
        rival,
        tuple(by_rival.get(rival, ())),
    )


def _both(first: str, second: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (first, second), (second, first)
