"""The summary of a run: each method's mean and interval by metric, compared with the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from torch import Tensor

from whyformer.evaluation.formatting import decimals_for, settings_group
from whyformer.evaluation.results import ResultKey, Results
from whyformer.metrics.score import Score
from whyformer.statistics.bootstrap import Bootstrap, Resamples


@dataclass(frozen=True)
class MethodSummary:
    """One method by one metric; `low` and `high` are NaN if there are too few samples."""

    method: str
    mean: float
    low: float
    high: float
    n: int  # samples that count
    rank: int | None = None  # 1 is the best; None if no direction is better, or no sample counts
    apart: bool | None = None  # whether it differs from the best, by paired differences

    @property
    def best(self) -> bool:
        """Whether no method has a better mean."""
        return self.rank == 1

    @property
    def alike(self) -> bool:
        """Whether it is not the best, and does not differ significantly from it."""
        return self.apart is False


@dataclass(frozen=True)
class MetricSummary:
    """All methods by one metric, for one target."""

    target: str
    metric: str
    rows: tuple[MethodSummary, ...]
    known: Mapping[str, Any] = field(default_factory=dict)  # the metric's entry in the settings
    how: Bootstrap = field(default_factory=Bootstrap)

    @property
    def title(self) -> str:
        """The metric's title, or its name."""
        return str(self.known.get("title") or self.metric)

    @property
    def better(self) -> str:
        """ "higher", "lower" or "neither"."""
        better = self.known.get("better")
        return better if better in ("higher", "lower") else "neither"

    @property
    def leader(self) -> MethodSummary | None:
        """The first of the best methods; None if no direction is better."""
        return next((row for row in self.rows if row.best), None)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and highest number of all rows: the range of the bars in the cells."""
        numbers = [v for row in self.rows for v in (row.mean, row.low, row.high)]
        finite = [v for v in numbers if math.isfinite(v)]
        return (min(finite), max(finite)) if finite else (math.nan, math.nan)

    @property
    def places(self) -> int | None:
        """The decimals of its numbers."""
        means = [abs(row.mean) for row in self.rows if math.isfinite(row.mean)]
        return decimals_for(max(means, default=0.0))

    @cached_property
    def by_method(self) -> dict[str, MethodSummary]:
        """The rows by method."""
        return {row.method: row for row in self.rows}


def bootstrap_of(
    results: Results, level: float | None = None, draws: int | None = None, seed: int | None = None
) -> Bootstrap:
    """The arguments that are not None, else those of the run, else the defaults."""
    arguments = {"level": level, "draws": draws, "seed": seed}
    known = settings_group(results.settings, "bootstrap")
    chosen: dict[str, Any] = {
        name: known.get(name) if value is None else value for name, value in arguments.items()
    }
    return Bootstrap(**{name: value for name, value in chosen.items() if value is not None})


def summary(
    results: Results, level: float | None = None, draws: int | None = None, seed: int | None = None
) -> list[MetricSummary]:
    """Return a summary per target and metric, in the order of the run.

    Each method is compared with the best by their difference on the same redrawn samples: their
    intervals may overlap although one is better on almost every sample.

    Args:
        results: The run.
        level: The share of the draws within an interval; None for that of the run.
        draws: How many times samples are drawn; None for that of the run.
        seed: Seed of the draws; None for that of the run.

    Raises:
        OptionError: `level` is not between 0 and 1, or `draws` is below 1.
    """
    run = with_metric_settings(results)
    resamples = Resamples(bootstrap_of(results, level, draws, seed))
    found = []
    for target in run.targets:
        for metric in run.metrics:
            keys = [ResultKey(method, target, metric) for method in run.methods]
            scores = {k.method: (s, run.samples(k)) for k in keys if (s := run.score(k))}
            if scores:
                known = settings_group(settings_group(run.settings, "metrics"), metric)
                empty = MetricSummary(target, metric, (), known, resamples.bootstrap)
                found.append(_with_rows(empty, scores, resamples))
    return found


def with_metric_settings(results: Results) -> Results:
    """The results with an entry for metrics in their settings, which may be empty."""
    if isinstance(results.settings.get("metrics"), Mapping):
        return results
    return replace(results, settings={**results.settings, "metrics": {}})


# -- one metric ------------------------------------------------------------------------------

_Measured = tuple[Score, Sequence[str]]  # a score, and the ids of its samples


def _with_rows(
    empty: MetricSummary, scores: Mapping[str, _Measured], resamples: Resamples
) -> MetricSummary:
    """The summary with a row per method, ranked and compared with the best."""
    means = {method: score.resampled_means(resamples) for method, (score, _) in scores.items()}
    rows = [
        _method_summary(method, score, means[method], resamples)
        for method, (score, _) in scores.items()
    ]
    ranked = replace(empty, rows=tuple(_with_ranks(rows, empty.better)))
    leader = ranked.leader
    if leader is None:
        return ranked

    def compare_with_best(row: MethodSummary) -> MethodSummary:
        if row.best or row.rank is None or min(row.n, leader.n) < 2:
            return row
        same = scores[row.method][1] == scores[leader.method][1]
        pair = (
            (means[leader.method], means[row.method])
            if same
            else _common_means(scores[leader.method], scores[row.method], resamples)
        )
        if pair is None:
            return row
        low, high = resamples.bootstrap.interval(pair[0] - pair[1])
        return replace(row, apart=None if math.isnan(low) else not low <= 0 <= high)

    return replace(ranked, rows=tuple(compare_with_best(row) for row in ranked.rows))


def _method_summary(
    method: str, score: Score, means: Tensor, resamples: Resamples
) -> MethodSummary:
    count = int(score.counted.sum())
    # One sample drawn again is always itself: an interval of width 0 would be misleading.
    low, high = resamples.bootstrap.interval(means) if count > 1 else (math.nan, math.nan)
    return MethodSummary(method, score.mean, low, high, count)


def _with_ranks(rows: Sequence[MethodSummary], better: str) -> list[MethodSummary]:
    if better == "neither":
        return list(rows)
    sign = 1 if better == "higher" else -1
    means = [sign * row.mean for row in rows if math.isfinite(row.mean)]
    return [
        replace(row, rank=1 + sum(mean > sign * row.mean for mean in means))
        if math.isfinite(row.mean)
        else row
        for row in rows
    ]


def _common_means(
    one: _Measured, other: _Measured, resamples: Resamples
) -> tuple[Tensor, Tensor] | None:
    """The means of two scores in each draw of their common samples; None if these are too few."""
    places = [{sample: i for i, sample in enumerate(samples)} for _, samples in (one, other)]
    both = [sample for sample in places[0] if sample in places[1]]
    if len(both) < 2:
        return None
    first, second = (
        score.take([place[sample] for sample in both]).resampled_means(resamples)
        for (score, _), place in zip((one, other), places, strict=True)
    )
    return first, second
