"""Rows of numbers packed for a script: one byte per number, only the strongest of long rows."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

LEVELS = 127  # a number is rounded to this many steps of its row's largest: one signed byte
FINE_LEVELS = 32767  # the same for two bytes
SCALE = 4  # bytes of a row's largest
FULL, PICKED = 1, 3  # bytes of a number: alone, and with its column


@dataclass(frozen=True)
class Room:
    """How many numbers per row fit: for the mean of the heads, and for every head."""

    mean: int
    heads: int


def block(values: Tensor, kept: int) -> dict[str, Any]:
    """Return the rows of `values` (rows, columns) with at most `kept` numbers each, in base64."""
    values = values.detach().cpu().float().nan_to_num()
    columns = values.shape[1]
    largest = values.abs().amax(1) if values.numel() else values.new_zeros(len(values))
    picked: dict[str, Any] = {}
    if _cost(kept) < _cost(columns, whole=True):
        at = values.abs().topk(kept, dim=1).indices
        values = values.gather(1, at)
        picked = {"kept": kept, "at": _text(at.to(torch.uint16))}
    shares = values / largest.clamp(min=torch.finfo(torch.float32).tiny).unsqueeze(1)
    return {
        "columns": columns,
        "scales": _text(largest),
        "values": _text((shares * LEVELS).round().to(torch.int8)),
        **picked,
    }


def fine_block(values: Tensor) -> dict[str, Any]:
    """Return the rows of `values` (rows, columns), two bytes per number, in base64."""
    values = values.detach().cpu().double().nan_to_num()
    largest = values.abs().amax(1) if values.numel() else values.new_zeros(len(values))
    shares = values / torch.where(largest > 0, largest, 1.0).unsqueeze(1)
    return {
        "columns": values.shape[1],
        "scales": _text(largest),
        "values": _text((shares * FINE_LEVELS).round().to(torch.int16)),
    }


def room(maps: list[tuple[int, int, int]], budget: int) -> Room | None:
    """Return how much of maps (heads, rows, columns) fits into `budget` bytes; None if all does.

    The mean of the heads gets a third, because readers look at it first.
    """
    whole = sum((heads + 1) * rows * _cost(columns, whole=True) for heads, rows, columns in maps)
    if whole <= budget:
        return None
    means = sum(rows for _, rows, _ in maps)
    each = sum(heads * rows for heads, rows, _ in maps)
    return Room(_fits(budget / 3 / means), _fits(budget * 2 / 3 / each))


def _cost(numbers: int, whole: bool = False) -> int:
    return SCALE + numbers * (FULL if whole else PICKED)


def _fits(bytes_of_a_row: float) -> int:
    return max(1, int((bytes_of_a_row - SCALE) / PICKED))


def _text(tensor: Tensor) -> str:
    # Browsers read little-endian on every machine.
    array = tensor.contiguous().numpy()
    return base64.b64encode(array.astype(array.dtype.newbyteorder("<")).tobytes()).decode()
