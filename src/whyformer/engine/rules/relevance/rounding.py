"""How much rounding changes relevance: the condition of the divisions that hand it on.

A rule divides relevance by a sum. If the terms of the sum nearly cancel, their rounding errors are
large beside it: the quotient is off by eps * terms / |sum|, and so is all relevance that it hands
on. The largest amount of relevance that one entry hands on decides how much an error of its own
matters: of two entries with the same condition, only the one with much relevance changes scores.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.engine.rules.samples import largest_per_sample


class RoundingError:
    """The worst division of each sample so far; noted while the relevance pass runs."""

    def __init__(self, batch: int = 1) -> None:
        self.batch = batch
        self._worst: Tensor | None = None

    @property
    def worst(self) -> Tensor:
        """The share of relevance that one rounding step changes, (batch,)."""
        return torch.zeros(self.batch) if self._worst is None else self._worst

    def note(
        self, relevance: Tensor, whole: Tensor, terms: Tensor, batch_first: bool = True
    ) -> None:
        """Note that relevance is divided by `whole`, a sum of terms of this size in all."""
        # Where the sum is exactly 0, nothing is handed on.
        condition = (terms / whole).nan_to_num_(0.0, 0.0, 0.0)
        flow = condition * relevance
        error = condition.mul(flow) if flow.shape != condition.shape else condition.mul_(flow)
        most = largest_per_sample(flow.abs_(), self.batch, batch_first)
        share = largest_per_sample(error.abs_(), self.batch, batch_first)
        share = (share / most).nan_to_num_(0.0) * torch.finfo(relevance.dtype).eps
        share = share.to("cpu", torch.float64, non_blocking=False)
        self._worst = share if self._worst is None else torch.maximum(self._worst, share)
