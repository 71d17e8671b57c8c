"""Safe division, in one place: 0 / 0 is 0, and the denominator keeps its sign."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def ratio(numerator: Tensor, denominator: Tensor, epsilon: float = 0.0) -> Tensor:
    """numerator / denominator, 0 where the denominator is exactly 0.

    `epsilon` moves the denominator away from 0: it is added with the denominator's sign.
    """
    if not epsilon:
        quotient = numerator / denominator
    else:
        # In place: allocating memory costs more than the arithmetic.
        moved = denominator.sign()
        torch.add(denominator, moved, alpha=epsilon, out=moved)
        alike = numerator.shape == moved.shape and numerator.dtype == moved.dtype
        quotient = torch.div(numerator, moved, out=moved if alike else None)
    return quotient if is_finite(quotient) else quotient.masked_fill_(denominator == 0, 0)


def is_finite(quotient: Tensor) -> bool:
    """Whether the quotient is known to be free of divisions by 0; False may also mean unknown.

    Zeros are rare, and searching for them costs more than a division. A division by 0 makes the
    sum infinite or NaN. On other devices `item` would wait for the queue, so nothing is known.
    """
    return quotient.device.type == "cpu" and math.isfinite(quotient.sum().item())


HALF = frozenset({torch.float16, torch.bfloat16})


def wide(tensor: Tensor) -> Tensor:
    """The tensor in at least float32, because sums in half precision lose digits."""
    return tensor.float() if tensor.dtype in HALF else tensor
