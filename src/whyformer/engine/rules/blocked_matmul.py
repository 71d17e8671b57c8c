"""rows @ w at the speed that the shape allows, whatever w's rows are aligned to."""

from __future__ import annotations

import torch
from torch import Tensor

PAGE = 4096  # bytes
SLAB = 128  # rows of w at a time
FEW = 192  # from so many rows on, slabs were measured to gain nothing


def multiply(rows: Tensor, w: Tensor, out: Tensor | None = None) -> Tensor:
    """rows @ w of two matrices, (rows, columns of w), in `out` where it is given.

    Where the rows of w are whole pages apart (3072 float32 are three), a product of few rows was
    measured to take half as long again as with rows a little further apart; slab by slab it does
    not. Likely all of a column then falls into the same few places of the processor's cache.
    """
    if not pays(len(rows), w):
        return torch.mm(rows, w, out=out)
    (first, *others), (top, *below) = rows.split(SLAB, 1), w.split(SLAB)
    total = torch.mm(first, top, out=out)
    for part, slab in zip(others, below, strict=True):
        total.addmm_(part, slab)
    return total


def pays(rows: int, w: Tensor) -> bool:
    """Whether so many rows are multiplied slab by slab.

    Not in half precision, which would round after each of them.
    """
    apart, size = w.stride(0), w.element_size()
    if rows >= FEW or size < 4 or w.device.type != "cpu":
        return False
    return w.stride(1) == 1 and apart * size % PAGE == 0
