"""The result of a metric: a value per sample, the curve behind it, and how it was computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError
from whyformer.statistics.bootstrap import Bootstrap, Resamples


@dataclass(frozen=True)
class Score:
    """One value per sample, with the convention to print beside it.

    `shares` are the numerators and denominators of each sample, (batch, parts) each. If they are
    set, the mean is a ratio of sums over all samples, as for pixel accuracy and mIoU, instead of
    the mean of the values. A sample whose denominators are 0 has the value 0 and does not count.
    """

    values: Tensor  # (batch,)
    curve: Tensor | None = None  # (batch, steps)
    steps: tuple[float, ...] | None = None
    convention: str = ""
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # further results, batch first
    shares: tuple[Tensor, Tensor] | None = None  # numerators, denominators: (batch, parts) each

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __reduce__(self) -> Any:
        """Copy and pickle with `parts` as a plain dict: a mapping proxy cannot be pickled."""
        plain = dict(self.parts)
        fields = (self.values, self.curve, self.steps, self.convention, plain, self.shares)
        return Score, fields

    def __len__(self) -> int:
        return len(self.values)

    @property
    def counted(self) -> Tensor:
        """Which samples count, (batch,)."""
        if self.shares is None:
            return torch.ones(len(self), dtype=torch.bool)
        return (self.shares[1] > 0).any(1)

    @property
    def mean(self) -> float:
        """The mean over all samples that count; NaN if none does."""
        all_samples = torch.arange(len(self), device=self.values.device).unsqueeze(0)
        return float(self.means(all_samples)[0])

    def means(self, picks: Tensor) -> Tensor:
        """The mean of each selection of samples, (selections,), from (selections, samples)."""
        if self.shares is None:
            return self.values.double()[picks].mean(1)
        found, there = (share.double()[picks].sum(1) for share in self.shares)
        counts = there > 0
        ratio = found / there.where(counts, 1)
        # A part that no sample has, such as an absent class, has no mean: 0 / 0 is NaN.
        return (ratio * counts).sum(1) / counts.sum(1)

    def resampled_means(self, resamples: Resamples) -> Tensor:
        """The mean in each draw of a bootstrap, (draws,)."""
        if self.shares is None:
            return resamples.means(self.values)
        device = self.values.device
        return torch.cat([self.means(picks.to(device)) for picks in resamples.picks(len(self))])

    def take(self, samples: Sequence[int]) -> Score:
        """The values and shares of some samples."""
        rows = list(samples)
        shares = None if self.shares is None else (self.shares[0][rows], self.shares[1][rows])
        return Score(self.values[rows], shares=shares)


def interval(
    score: Score, *, level: float = 0.95, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return the bootstrap interval of a score's mean as (low, high).

    The same samples and seed give the same interval. Draws in which no sample counts are left out.

    Args:
        score: The score whose samples are drawn again.
        level: The share of the draws that lies within the interval.
        draws: How many times the samples are drawn.
        seed: Seed of the draws.

    Raises:
        InputError: The score has no samples.
        OptionError: `level` is not between 0 and 1, or `draws` is below 1.

    Example:
        >>> import torch
        >>> interval(Score(torch.tensor([0.25, 0.25])))
        (0.25, 0.25)
    """
    bootstrap = Bootstrap(draws, seed, level)
    if not len(score):
        raise InputError(
            "a score of no samples has no interval",
            argument="score",
            remedy="Pass a score of at least one sample",
        )
    return bootstrap.interval(score.resampled_means(Resamples(bootstrap)))


def combine_scores(scores: Sequence[Score]) -> Score:
    """Return the scores of several batches as one, in their order.

    Raises:
        InputError: There are no scores, or they were computed in different ways.
    """
    if not scores:
        raise InputError(
            "there are no scores to combine", argument="scores", remedy="Pass at least one score"
        )
    first = scores[0]
    for other in scores[1:]:
        if (other.convention, other.steps) != (first.convention, first.steps):
            raise InputError(
                "scores of different conventions cannot be combined:"
                f" {first.convention!r} and {other.convention!r}",
                argument="scores",
                remedy="Combine scores of one metric with the same options",
            )
    curves = [score.curve for score in scores if score.curve is not None]
    shares = [score.shares for score in scores if score.shares is not None]
    return Score(
        torch.cat([score.values for score in scores]),
        torch.cat(curves) if curves else None,
        first.steps,
        first.convention,
        {name: torch.cat([score.parts[name] for score in scores]) for name in first.parts},
        (torch.cat([s[0] for s in shares]), torch.cat([s[1] for s in shares])) if shares else None,
    )
