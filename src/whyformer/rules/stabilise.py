"""Division by almost nothing, in one place: 0/0 is 0, and signs are kept."""

from __future__ import annotations

import torch
from torch import Tensor


def ratio(numerator: Tensor, denominator: Tensor, epsilon: float = 0.0) -> Tensor:
    """numerator / denominator, 0 where the denominator is exactly 0.

    `epsilon` moves the denominator away from 0, to the side it is on.
    """
    zero = denominator == 0
    if epsilon:
        # In one piece of memory: fresh memory costs more than the numbers.
        moved = denominator.sign()
        denominator = torch.add(denominator, moved, alpha=epsilon, out=moved)
        if numerator.shape == moved.shape and numerator.dtype == moved.dtype:
            return torch.div(numerator, moved, out=moved).masked_fill_(zero, 0)
    return (numerator / denominator).masked_fill_(zero, 0)


def wide(tensor: Tensor) -> Tensor:
    """The tensor in at least float32: sums of half precision lose what they add up."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor
