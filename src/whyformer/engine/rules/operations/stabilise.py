"""Division by almost nothing, in one place: 0/0 is 0, and signs are kept."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def ratio(numerator: Tensor, denominator: Tensor, epsilon: float = 0.0) -> Tensor:
    """numerator / denominator, 0 where the denominator is exactly 0.

    `epsilon` moves the denominator away from 0, to the side it is on.
    """
    if not epsilon:
        return (numerator / denominator).masked_fill_(denominator == 0, 0)
    # In one piece of memory: fresh memory costs more than the numbers.
    moved = denominator.sign()
    torch.add(denominator, moved, alpha=epsilon, out=moved)
    alike = numerator.shape == moved.shape and numerator.dtype == moved.dtype
    quotient = torch.div(numerator, moved, out=moved if alike else None)
    # Zeros are rare, and to look for them costs as much as the rest: their quotients show in the
    # sum. Where a glance at a number would have the processor wait for a device, it is not taken.
    if quotient.device.type == "cpu" and math.isfinite(quotient.sum().item()):
        return quotient
    return quotient.masked_fill_(denominator == 0, 0)


def wide(tensor: Tensor) -> Tensor:
    """The tensor in at least float32: sums of half precision lose what they add up."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
