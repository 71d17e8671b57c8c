"""What a metric gives back: a value per sample, the curve behind it, and how it was taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import InputError


@dataclass(frozen=True)
class Score:
    """One value per sample, (batch,), with the sentence that has to be printed beside it.

    `shares` are what was found and what there was to find, (batch, parts) each: where they are
    given, the mean is not of the values but of sums over all samples, as pixel accuracy and mIoU
    are taken. A sample that has nothing to find has a value of 0 and a share of 0: it does not
    count.
    """

    values: Tensor  # (batch,)
    curve: Tensor | None = None  # (batch, steps)
    steps: tuple[float, ...] | None = None
    convention: str = ""
    parts: Mapping[str, Tensor] = field(default_factory=dict)  # batch first: what else was found
    shares: tuple[Tensor, Tensor] | None = None  # found and to find, (batch, parts) each

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", MappingProxyType(dict(self.parts)))

    def __reduce__(self) -> Any:
        """How copy and other processes take it: a read-only mapping travels as a plain one."""
        plain = dict(self.parts)
        given = (self.values, self.curve, self.steps, self.convention, plain, self.shares)
        return Score, given

    def __len__(self) -> int:
        return len(self.values)

    @property
    def mean(self) -> float:
        """The mean over all samples that count; NaN only where none does."""
        everyone = torch.arange(len(self), device=self.values.device).unsqueeze(0)
        return float(self.means(everyone)[0])

    def means(self, samples: Tensor) -> Tensor:
        """The means of several choices of samples, (choices,), given as (choices, samples)."""
        if self.shares is None:
            return self.values.double()[samples].mean(1)
        found, there = (share.double()[samples].sum(1) for share in self.shares)
        counts = there > 0
        ratio = found / there.where(counts, 1)
        # A part that no sample has, such as a class that is nowhere, has no mean: 0 / 0 is NaN.
        return (ratio * counts).sum(1) / counts.sum(1)


def combine_scores(scores: Sequence[Score]) -> Score:
    """The score of several batches as one, in their order."""
    if not scores:
        raise InputError("there are no scores to combine")
    first = scores[0]
    for other in scores[1:]:
        if (other.convention, other.steps) != (first.convention, first.steps):
            raise InputError(
                "scores of different conventions cannot be combined:"
                f" {first.convention!r} and {other.convention!r}"
            )

    def joined(parts: list[Tensor | None]) -> Tensor | None:
        return (
            torch.cat([part for part in parts if part is not None])
            if parts[0] is not None
            else None
        )

    shares = [score.shares for score in scores if score.shares is not None]
    return Score(
        torch.cat([score.values for score in scores]),
        joined([score.curve for score in scores]),
        first.steps,
        first.convention,
        {name: torch.cat([score.parts[name] for score in scores]) for name in first.parts},
        (torch.cat([s[0] for s in shares]), torch.cat([s[1] for s in shares])) if shares else None,
    )
