"""Differences between groups and how far they can be trusted: percentile bootstrap.

Names x templates is a grid, and both are samples of more that could have been written. So each
draw takes templates with replacement, the same ones for both groups, and names with replacement
within each group; the interval holds the middle 95 % of the differences of the draws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.errors import OptionError
from whyformer.metrics.bootstrap import interval
from whyformer.metrics.score import Score

CELLS = 4_000_000  # of a table of pairs by draws that are held at once


@dataclass(frozen=True)
class Estimate:
    """A value and the interval around it."""

    value: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval leaves 0 out."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are taken; the same seed gives the same intervals."""

    draws: int = 1000
    seed: int = 0
    level: float = 0.95

    def __post_init__(self) -> None:
        if isinstance(self.draws, bool) or self.draws < 1:
            raise OptionError(f"draws={self.draws!r}: give a whole number from 1")
        if not 0 < self.level < 1:
            raise OptionError(f"level={self.level!r}: give a number between 0 and 1, such as 0.95")

    def mean(self, values: Sequence[float]) -> Estimate:
        """The mean over samples, which are drawn with replacement."""
        score = Score(torch.tensor(values, dtype=torch.float64))
        low, high = interval(score, level=self.level, draws=self.draws, seed=self.seed)
        return Estimate(score.mean, low, high)

    def grid_mean(self, values: Tensor) -> Estimate:
        """The mean of (templates, names), both drawn."""
        rows, columns = self._drawn(values.shape[0], values.shape[1])
        return self._estimate(float(values.mean()), _means(values, rows, columns))

    def grid_difference(
        self, first: Tensor, second: Tensor, weights: tuple[Tensor, Tensor] | None = None
    ) -> Estimate:
        """The mean of one (templates, names) less that of another over the same templates.

        `weights` (names,) say how much each name counts.
        """
        rows, ours, theirs = self._drawn(len(first), first.shape[1], second.shape[1])
        if weights is None:
            weights = (torch.ones(first.shape[1]), torch.ones(second.shape[1]))
        one, other = (weight.double() for weight in weights)
        every = torch.ones(1, len(first), dtype=torch.float64)
        value = _means(first, every, one[None]) - _means(second, every, other[None])
        draws = _means(first, rows, ours * one) - _means(second, rows, theirs * other)
        return self._estimate(float(value), draws)

    def pairs(self, distance: Tensor, counts: Tensor, *, within: bool) -> Estimate | None:
        """The mean of (templates, names, other names) over the pairs that count; None for none.

        `counts` (names, other names) is 1 for pairs of different names. `within` says that both
        sides are the same group, so that both are drawn as one.
        """
        if not bool(counts.any()):
            return None
        distance, counts = distance.double(), counts.double()
        templates, first, second = distance.shape
        rows, ours, theirs = self._drawn(templates, first, second)
        if within:
            theirs = ours
        flat = (distance * counts).flatten(1)
        some = max(1, CELLS // flat.shape[1])
        found = []
        for chosen in torch.arange(self.draws).split(some):
            weight = ours[chosen, :, None] * theirs[chosen, None, :]
            sums = (rows[chosen] @ flat).unflatten(1, (first, second))
            total = (weight * counts).sum((1, 2)) * rows[chosen].sum(1)
            found.append((sums * weight).sum((1, 2)) / total)
        value = float((distance * counts).sum() / (counts.sum() * templates))
        return self._estimate(value, torch.cat(found))

    def apart(self, first: Sequence[float | None], second: Sequence[float | None]) -> Estimate:
        """The mean of one group less that of another over samples, which are drawn.

        A sample that has nothing of a group is None there.
        """
        picks = self._drawn(len(first))[0]
        means, values = [], []
        for group in (first, second):
            there = torch.tensor([value is not None for value in group], dtype=torch.float64)
            known = torch.tensor([value or 0.0 for value in group], dtype=torch.float64)
            means.append((picks @ known) / (picks @ there))
            values.append(float(known.sum() / there.sum()))
        return self._estimate(values[0] - values[1], means[0] - means[1])

    def _drawn(self, *counts: int) -> list[Tensor]:
        """How often each of so many is drawn, (draws, count) for each count."""
        generator = torch.Generator().manual_seed(self.seed)
        found = []
        for count in counts:
            picks = torch.randint(count, (self.draws, count), generator=generator)
            empty = torch.zeros(self.draws, count, dtype=torch.float64)
            found.append(empty.scatter_add_(1, picks, torch.ones_like(empty)))
        return found

    def _estimate(self, value: float, draws: Tensor) -> Estimate:
        draws = draws[draws.isfinite()]  # a draw may have no pair, or no sample of a group
        if not len(draws):
            return Estimate(value, float("nan"), float("nan"))
        ends = torch.tensor([(1 - self.level) / 2, (1 + self.level) / 2], dtype=draws.dtype)
        low, high = torch.quantile(draws, ends).tolist()
        return Estimate(value, low, high)


def _means(values: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Means of (templates, names) by weights of rows and columns, one per draw."""
    columns = columns.expand(len(rows), -1)
    sums = ((rows @ values.double()) * columns).sum(1)
    return sums / (rows.sum(1) * columns.sum(1))


def same_lengths(first: Sequence[int], second: Sequence[int]) -> tuple[Tensor, Tensor] | None:
    """Weights under which two groups of names have the same token counts; None where none is.

    A count that both groups have weighs as much as the group that has it less often allows.
    """

    def weights(own: Sequence[int], other: Sequence[int]) -> Tensor:
        return torch.tensor(
            [min(own.count(n), other.count(n)) / own.count(n) for n in own], dtype=torch.float64
        )

    one, two = weights(first, second), weights(second, first)
    return (one, two) if bool(one.any()) else None
