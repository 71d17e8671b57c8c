"""Percentile bootstrap intervals (Efron, 1979) of means, of group differences and of pairs.

A grid is a tensor (templates, names) with one value for each name in each template. Rows and
columns are drawn independently, so that an interval holds for other templates and other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.errors import OptionError

PAIRS_AT_ONCE = 4_000_000  # entries of the (pairs, draws) table in memory at once
PICKS_AT_ONCE = 1_000_000  # sample numbers per part: 8 MB


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; the ends are NaN if no draw gave a number."""

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are computed. The same settings and data give the same interval.

    Args:
        draws: How many times the samples are drawn again.
        seed: Seed of the draws.
        level: The share of the draws that lies within the interval.

    Raises:
        OptionError: `draws` is below 1, or `level` is not between 0 and 1.
    """

    draws: int = 1000
    seed: int = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        if isinstance(self.draws, bool) or self.draws < 1:
            raise OptionError(
                f"draws={self.draws!r} is not a positive whole number",
                argument="draws",
                remedy="Pass a whole number from 1, such as 1000",
            )
        if not 0 < self.level < 1:
            raise OptionError(
                f"level={self.level!r} is not between 0 and 1",
                argument="level",
                remedy="Pass a number between 0 and 1, such as 0.95",
            )

    # -- draws and their interval ----------------------------------------------------------------

    def picks(self, *counts: int) -> list[Tensor]:
        """For each count, the numbers of the items in every draw, (draws, count)."""
        generator = torch.Generator().manual_seed(self.seed)
        return [torch.randint(count, (self.draws, count), generator=generator) for count in counts]

    def frequencies(self, *counts: int) -> list[Tensor]:
        """For each count, how often each item is in every draw, (draws, count)."""
        return [_frequencies(picks) for picks in self.picks(*counts)]

    def quantiles(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """The quantiles at the ends of the interval, (2,)."""
        return torch.tensor([(1 - self.level) / 2, (1 + self.level) / 2], dtype=dtype)

    def interval(self, draws: Tensor) -> tuple[float, float]:
        """(low, high) of a statistic's value in each draw; NaN if none is finite."""
        draws = draws[draws.isfinite()]  # a draw may have no pair, or no sample of a group
        if not len(draws):
            return float("nan"), float("nan")
        low, high = torch.quantile(draws, self.quantiles(draws.dtype).to(draws.device)).tolist()
        return low, high

    def _estimate(self, value: float, draws: Tensor) -> Estimate:
        return Estimate(value, *self.interval(draws))

    # -- statistics ------------------------------------------------------------------------------

    def mean(self, values: Sequence[float]) -> Estimate:
        """The mean over samples."""
        known = torch.tensor(values, dtype=torch.float64)
        return self._estimate(float(known.mean()), Resamples(self).means(known))

    def group_difference(
        self, first: Sequence[float | None], second: Sequence[float | None]
    ) -> Estimate:
        """The mean of the first group minus that of the second, over the same samples.

        A sample without a value in a group is None there.
        """
        (often,) = self.frequencies(len(first))
        means, values = [], []
        for group in (first, second):
            there = torch.tensor([value is not None for value in group], dtype=torch.float64)
            known = torch.tensor([value or 0.0 for value in group], dtype=torch.float64)
            means.append((often @ known) / (often @ there))
            values.append(float(known.sum() / there.sum()))
        return self._estimate(values[0] - values[1], means[0] - means[1])

    def grid_mean(self, values: Tensor) -> Estimate:
        """The mean of a grid (templates, names)."""
        rows, columns = self.frequencies(values.shape[0], values.shape[1])
        return self._estimate(float(values.mean()), _grid_means(values, rows, columns))

    def grid_difference(
        self, first: Tensor, second: Tensor, weights: tuple[Tensor, Tensor] | None = None
    ) -> Estimate:
        """The mean of one grid minus that of another with the same templates.

        `weights` are those of the names of each grid, (names,) each.
        """
        rows, ours, theirs = self.frequencies(len(first), first.shape[1], second.shape[1])
        if weights is None:
            weights = (torch.ones(first.shape[1]), torch.ones(second.shape[1]))
        one, other = (weight.double() for weight in weights)
        every = torch.ones(1, len(first), dtype=torch.float64)
        value = _grid_means(first, every, one[None]) - _grid_means(second, every, other[None])
        draws = _grid_means(first, rows, ours * one) - _grid_means(second, rows, theirs * other)
        return self._estimate(float(value), draws)

    def pair_mean(self, distance: Tensor, counts: Tensor, *, within: bool) -> Estimate | None:
        """The mean of (templates, names, other names) over the pairs that count, or None.

        `counts` (names, other names) is 1 for each pair that counts. With `within` both sides are
        the same group, and are drawn once.
        """
        if not bool(counts.any()):
            return None
        distance, counts = distance.double(), counts.double()
        templates, first, second = distance.shape
        rows, ours, theirs = self.frequencies(templates, first, second)
        if within:
            theirs = ours
        flat = (distance * counts).flatten(1)
        means = []
        for some in torch.arange(self.draws).split(max(1, PAIRS_AT_ONCE // flat.shape[1])):
            weight = ours[some, :, None] * theirs[some, None, :]
            sums = (rows[some] @ flat).unflatten(1, (first, second))
            total = (weight * counts).sum((1, 2)) * rows[some].sum(1)
            means.append((sums * weight).sum((1, 2)) / total)
        value = float((distance * counts).sum() / (counts.sum() * templates))
        return self._estimate(value, torch.cat(means))


class Resamples:
    """The draws of a bootstrap, computed once for every number of samples."""

    def __init__(self, bootstrap: Bootstrap) -> None:
        self.bootstrap = bootstrap
        self._picks: dict[int, Tensor] = {}
        self._often: dict[int, Tensor] = {}

    def picks(self, count: int) -> Iterator[Tensor]:
        """The numbers of the samples in every draw, (draws, count), a few draws at a time."""
        if count not in self._picks:
            (self._picks[count],) = self.bootstrap.picks(count)
        yield from self._picks[count].split(max(1, PICKS_AT_ONCE // count))

    def means(self, values: Tensor) -> Tensor:
        """The means of values (samples, ...) in every draw, (draws, ...).

        A product with the frequencies takes a tenth of the time of indexing the values.
        """
        count = len(values)
        if count not in self._often:
            (self._often[count],) = self.bootstrap.frequencies(count)
        return self._often[count].to(values.device) @ values.double() / count


def matching_weights(first: Sequence[int], second: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Weights that give two groups of names the same distribution of token counts.

    A count that both groups have weighs as much as in the group that has it less often. None if
    the groups have no count in common.
    """

    def weights(own: Sequence[int], other: Sequence[int]) -> Tensor:
        return torch.tensor(
            [min(own.count(n), other.count(n)) / own.count(n) for n in own], dtype=torch.float64
        )

    one, two = weights(first, second), weights(second, first)
    return (one, two) if bool(one.any()) else None


def _frequencies(picks: Tensor) -> Tensor:
    """How often each item was picked, (draws, items)."""
    empty = torch.zeros(picks.shape, dtype=torch.float64)
    return empty.scatter_add_(1, picks, torch.ones_like(empty))


def _grid_means(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Means of a grid under weights of its rows and columns, one per draw."""
    columns = columns.expand(len(rows), -1)
    sums = ((rows @ values.double()) * columns).sum(1)
    return sums / (rows.sum(1) * columns.sum(1))
