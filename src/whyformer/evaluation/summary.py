"""What a run says: each method's mean by a metric, its interval, and who is told from the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from whyformer.errors import OptionError
from whyformer.evaluation.results import ResultKey, Results
from whyformer.evaluation.wording import decimals_for, settings_group
from whyformer.metrics.bootstrap import AT_ONCE
from whyformer.metrics.score import Score


class Bootstrap(NamedTuple):
    """How intervals are taken."""

    level: float = 0.95
    draws: int = 1000
    seed: int = 0


@dataclass(frozen=True)
class MethodSummary:
    """One method by one metric; `low` and `high` are NaN where samples are too few to tell."""

    method: str
    mean: float
    low: float
    high: float
    n: int  # samples that count
    rank: int | None = None  # 1 is the best; None where no way is better, or nothing counts
    apart: bool | None = None  # from the best, by paired differences; None where nothing tells

    @property
    def best(self) -> bool:
        """Whether no method has a better mean."""
        return self.rank == 1

    @property
    def alike(self) -> bool:
        """Whether it is not the best, and not told apart from it either."""
        return self.apart is False


@dataclass(frozen=True)
class MetricSummary:
    """All methods by one metric, explaining one class."""

    target: str
    metric: str
    rows: tuple[MethodSummary, ...]
    known: Mapping[str, Any] = field(default_factory=dict)  # what the settings say of the metric
    how: Bootstrap = field(default_factory=Bootstrap)

    @property
    def title(self) -> str:
        """The metric's sentence about itself, or its name."""
        return str(self.known.get("title") or self.metric)

    @property
    def better(self) -> str:
        """ "higher", "lower" or "neither"."""
        told = self.known.get("better")
        return told if told in ("higher", "lower") else "neither"

    @property
    def leader(self) -> MethodSummary | None:
        """The first of the best; None where no way is better."""
        return next((row for row in self.rows if row.best), None)

    @property
    def ends(self) -> tuple[float, float]:
        """The lowest and highest number of all rows: what a bar in a cell is drawn on."""
        numbers = [v for row in self.rows for v in (row.mean, row.low, row.high)]
        finite = [v for v in numbers if math.isfinite(v)]
        return (min(finite), max(finite)) if finite else (math.nan, math.nan)

    @property
    def places(self) -> int | None:
        """The decimals that its numbers are written with."""
        means = [abs(row.mean) for row in self.rows if math.isfinite(row.mean)]
        return decimals_for(max(means, default=0.0))

    @cached_property
    def by_method(self) -> dict[str, MethodSummary]:
        """The rows by their method."""
        return {row.method: row for row in self.rows}


def bootstrap_of(
    results: Results, level: float | None = None, draws: int | None = None, seed: int | None = None
) -> Bootstrap:
    """What is asked for, else what the run's settings say, else 95 % of 1000 draws."""
    asked = {"level": level, "draws": draws, "seed": seed}
    told = settings_group(results.settings, "bootstrap")
    chosen: dict[str, Any] = {
        name: told.get(name) if value is None else value for name, value in asked.items()
    }
    how = Bootstrap(**{name: value for name, value in chosen.items() if value is not None})
    if not 0 < how.level < 1 or how.draws < 1:
        raise OptionError(f"level={how.level!r} is between 0 and 1, draws={how.draws!r} at least 1")
    return how


class Resamples:
    """The same redrawn samples for every score of the same length, as `interval` draws them."""

    def __init__(self, how: Bootstrap) -> None:
        self.how = how
        self._drawn: dict[int, Tensor] = {}
        self._often: dict[int, Tensor] = {}

    def of(self, count: int) -> Tensor:
        """Choices of samples, (draws, count)."""
        if count not in self._drawn:
            generator = torch.Generator().manual_seed(self.how.seed)
            self._drawn[count] = torch.randint(count, (self.how.draws, count), generator=generator)
        return self._drawn[count]

    def averaged(self, values: Tensor) -> Tensor:
        """The means of values, (samples, ...), over every choice, (draws, ...).

        How often each sample was drawn, times its value: as a product of matrices it takes a tenth
        of the time that picking the values takes.
        """
        count = len(values)
        if count not in self._often:
            drawn = self.of(count)
            often = torch.zeros(drawn.shape, dtype=torch.float64)
            self._often[count] = often.scatter_add_(1, drawn, torch.ones_like(often))
        return self._often[count] @ values.double() / count

    def means(self, score: Score) -> Tensor:
        """The means of the redrawn samples, (draws,)."""
        if score.shares is None:
            return self.averaged(score.values)
        parts = self.of(len(score)).split(max(1, AT_ONCE // len(score)))
        return torch.cat([score.means(samples) for samples in parts])

    def between(self, means: Tensor) -> tuple[float, float]:
        """(low, high) of the level's share of means; NaN where none is a number."""
        means = means[means.isfinite()]
        if not len(means):
            return math.nan, math.nan
        low, high = torch.quantile(means, self.ends).tolist()
        return low, high

    @property
    def ends(self) -> Tensor:
        """The quantiles between which the level's share lies, (2,)."""
        level = self.how.level
        return torch.tensor([(1 - level) / 2, (1 + level) / 2], dtype=torch.float64)


def summary(
    results: Results, level: float | None = None, draws: int | None = None, seed: int | None = None
) -> list[MetricSummary]:
    """A figure per target and metric, in the order of the run.

    Whether a method is told apart from the best is asked of their difference on the same redrawn
    samples: two intervals may overlap although one method is better on almost every sample.
    """
    run, redraws = (
        with_metric_settings(results),
        Resamples(bootstrap_of(results, level, draws, seed)),
    )
    figures = []
    for target in run.targets:
        for metric in run.metrics:
            cells = [ResultKey(method, target, metric) for method in run.methods]
            scores = {c.method: (s, run.samples(c)) for c in cells if (s := run.score(c))}
            if scores:
                known = settings_group(settings_group(run.settings, "metrics"), metric)
                empty = MetricSummary(target, metric, (), known, redraws.how)
                figures.append(_with_rows(empty, scores, redraws))
    return figures


def with_metric_settings(results: Results) -> Results:
    """The results with settings that can be asked, whatever is missing in them."""
    if isinstance(results.settings.get("metrics"), Mapping):
        return results
    return replace(results, settings={**results.settings, "metrics": {}})


def samples_that_count(score: Score) -> Tensor:
    """Which samples have something to find, (batch,)."""
    if score.shares is None:
        return torch.ones(len(score), dtype=torch.bool)
    return (score.shares[1] > 0).any(1)


# -- one figure ------------------------------------------------------------------------------

_Measured = tuple[Score, Sequence[str]]  # a score, and the ids of its samples


def _with_rows(
    empty: MetricSummary, scores: Mapping[str, _Measured], redraws: Resamples
) -> MetricSummary:
    means = {method: redraws.means(score) for method, (score, _) in scores.items()}
    rows = [
        _method_summary(method, score, means[method], redraws)
        for method, (score, _) in scores.items()
    ]
    figure = replace(empty, rows=tuple(_with_ranks(rows, empty.better)))
    leader = figure.leader
    if leader is None:
        return figure

    def compared(row: MethodSummary) -> MethodSummary:
        if row.best or row.rank is None or min(row.n, leader.n) < 2:
            return row
        same = scores[row.method][1] == scores[leader.method][1]
        pair = (
            (means[leader.method], means[row.method])
            if same
            else _common_means(scores[leader.method], scores[row.method], redraws)
        )
        low, high = redraws.between(pair[0] - pair[1]) if pair else (math.nan, math.nan)
        return replace(row, apart=None if math.isnan(low) else not low <= 0 <= high)

    return replace(figure, rows=tuple(compared(row) for row in figure.rows))


def _method_summary(method: str, score: Score, means: Tensor, redraws: Resamples) -> MethodSummary:
    counted = int(samples_that_count(score).sum())
    # One sample redrawn is always itself: an interval of no width would say too much.
    low, high = redraws.between(means) if counted > 1 else (math.nan, math.nan)
    return MethodSummary(method, score.mean, low, high, counted)


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
    one: _Measured, other: _Measured, redraws: Resamples
) -> tuple[Tensor, Tensor] | None:
    """The redrawn means of two scores over the samples that both have; None where too few."""
    places = [{sample: i for i, sample in enumerate(samples)} for _, samples in (one, other)]
    both = [sample for sample in places[0] if sample in places[1]]
    if len(both) < 2:
        return None
    first, second = (
        redraws.means(_take(score, [place[sample] for sample in both]))
        for (score, _), place in zip((one, other), places, strict=True)
    )
    return first, second


def _take(score: Score, samples: list[int]) -> Score:
    shares = None if score.shares is None else (score.shares[0][samples], score.shares[1][samples])
    return Score(score.values[samples], shares=shares)
