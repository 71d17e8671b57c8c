"""How much rounding changes relevance: the condition of the divisions that hand it on.

A rule divides relevance by a sum. If the terms of the sum nearly cancel, their rounding errors are
large beside the sum: an entry hands on relevance * terms / |sum|, and of that eps * terms / |sum|
is rounding error. The largest error of an operation, as a share of the most that one of its entries
hands on, tells how much one rounding step changes the relevance below it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.engine.rules.samples import largest_per_sample


class RoundingError:
    """The worst operation of each sample so far; noted while the relevance pass runs."""

    def __init__(self, batch: int = 1) -> None:
        """Start without an error in a batch of this many samples."""
        self.batch = batch
        self._worst: list[Tensor] = []  # (batch,) each

    @property
    def worst(self) -> Tensor:
        """The share of relevance that one rounding step changes, (batch,)."""
        if not self._worst:
            return torch.zeros(self.batch)
        # The blocks of one model may be on several devices.
        return torch.stack([one.to(self._worst[0]) for one in self._worst]).amax(0)

    def note(
        self, relevance: Tensor, whole: Tensor, terms: Tensor, batch_first: bool = True
    ) -> None:
        """Note that relevance is divided by `whole`, a sum whose terms have the size `terms`."""
        # Where the sum is exactly 0, nothing is handed on.
        condition = (terms / whole).nan_to_num_(0.0, 0.0, 0.0)
        flow = condition * relevance
        error = condition * flow
        most = largest_per_sample(flow.abs_(), self.batch, batch_first)
        largest = largest_per_sample(error.abs_(), self.batch, batch_first)
        eps = torch.finfo(relevance.dtype).eps
        self._worst.append((largest / most).nan_to_num_(0.0).mul_(eps))
