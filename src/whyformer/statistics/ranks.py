"""Rank correlations of a batch at once: Spearman (1904) and Kendall's tau-b (1945)."""

from __future__ import annotations

import torch
from torch import Tensor

# Pairs compared at once: 32 MB in double precision.
PAIRS_AT_ONCE = 4_000_000


def equal_runs(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """First and last index of the run of equal neighbours at each item, (batch, items) both."""
    index = torch.arange(ordered.shape[1], device=ordered.device).expand(ordered.shape)
    edge = ordered[:, 1:] != ordered[:, :-1]
    true = torch.ones(len(ordered), 1, dtype=torch.bool, device=ordered.device)
    starts = torch.where(torch.cat((true, edge), 1), index, 0).cummax(1).values
    last = ordered.shape[1] - 1
    ends = torch.where(torch.cat((edge, true), 1), index, last).flip(1).cummin(1).values.flip(1)
    return starts, ends


def ranks(values: Tensor, mask: Tensor) -> Tensor:
    """Ranks from 0; equal values share their mean rank, (batch, items); 0 if masked out."""
    # Padding sorts behind everything, so it moves no rank.
    ordered, order = values.double().masked_fill(~mask, torch.inf).sort(dim=1, stable=True)
    starts, ends = equal_runs(ordered)
    found = torch.empty_like(ordered).scatter_(1, order, (starts + ends).double() / 2)
    return found.masked_fill(~mask, 0)


def spearman(left: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """Correlation of ranks, (batch,), between -1 and 1; equal scores share a rank."""
    return pearson(ranks(left, mask), ranks(right, mask), mask)


def pearson(left: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """Linear correlation, (batch,): 0 if one side is constant, 1 if both are."""
    x, y = _centre(left.double(), mask), _centre(right.double(), mask)
    return _ratio((x * y).sum(1), (x * x).sum(1), (y * y).sum(1))


def kendall(left: Tensor, right: Tensor, mask: Tensor) -> Tensor:
    """Kendall's tau-b: concordant minus discordant pairs, corrected for ties, (batch,)."""
    both = untied_left = untied_right = torch.zeros(len(mask), device=mask.device).double()
    some = max(1, PAIRS_AT_ONCE // max(1, mask.numel()))
    parts = (side.split(some, dim=1) for side in (left, right, mask))
    for x, y, here in zip(*parts, strict=True):
        pairs = here.unsqueeze(2) & mask.unsqueeze(1)
        signs_left = (x.unsqueeze(2) - left.unsqueeze(1)).sign().double() * pairs
        signs_right = (y.unsqueeze(2) - right.unsqueeze(1)).sign().double() * pairs
        both = both + (signs_left * signs_right).sum((1, 2))
        untied_left = untied_left + signs_left.abs().sum((1, 2))
        untied_right = untied_right + signs_right.abs().sum((1, 2))
    return _ratio(both, untied_left, untied_right)


def _centre(side: Tensor, mask: Tensor) -> Tensor:
    """Values minus their mean, (batch, items); exactly 0 if they are all equal."""
    mean = (side * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
    low, high = (
        side.masked_fill(~mask, end).aminmax(dim=1, keepdim=True)[which]
        for which, end in ((0, torch.inf), (1, -torch.inf))
    )
    # The mean of equal numbers need not equal them in floating point.
    return ((side - mean) * mask).where(low < high, 0)


def _ratio(both: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """both / sqrt(left * right): 1 if both sides are constant, 0 if only one is."""
    flat_left, flat_right = left <= 0, right <= 0
    # Roots first: the product of two small variances can underflow to 0.
    scale = left.sqrt() * right.sqrt()
    found = (both / scale.where(scale > 0, 1)).clamp(-1, 1)
    return torch.where(flat_left | flat_right, (flat_left & flat_right).double(), found)
