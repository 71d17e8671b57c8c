"""Packed rows: what comes back is what went in, to the promised step, and fits the budget."""

from __future__ import annotations

import base64
from typing import Any

import pytest
import torch
from torch import Tensor

from whyformer.render.html.packing import LEVELS, block, room


def unpacked(packed: dict[str, Any]) -> Tensor:
    """The rows again, as the page's script reads them."""
    scales = torch.frombuffer(bytearray(base64.b64decode(packed["scales"])), dtype=torch.float32)
    values = torch.frombuffer(bytearray(base64.b64decode(packed["values"])), dtype=torch.int8)
    unpacked_values = values.reshape(len(scales), -1) * scales[:, None] / LEVELS
    if "at" not in packed:
        return unpacked_values
    at = torch.frombuffer(bytearray(base64.b64decode(packed["at"])), dtype=torch.uint16)
    places = at.reshape(len(scales), packed["kept"]).long()
    return torch.zeros(len(scales), packed["columns"]).scatter(1, places, unpacked_values)


@pytest.mark.parametrize("size", [1e-20, 1.0, 1e20])
def test_whole_rows_come_back_to_half_a_step(size: float) -> None:
    values = size * torch.randn(7, 30)
    back = unpacked(block(values, 30))
    assert ((back - values).abs().amax(1) <= 0.51 / LEVELS * values.abs().amax(1)).all()


def test_of_long_rows_the_strongest_come_back() -> None:
    values = torch.randn(5, 400)
    back = unpacked(block(values, 9))
    assert ((back != 0).sum(1) == 9).all()
    for row, unpacked_values in zip(values, back, strict=True):
        strongest = row.abs().topk(9).indices
        assert (
            unpacked_values[strongest] - row[strongest]
        ).abs().max() <= 0.51 / LEVELS * row.abs().max()


def test_rows_that_cost_less_whole_are_whole() -> None:
    values = torch.rand(2, 12)
    assert "at" not in block(values, 4)  # 4 numbers with their places are 12 bytes as well
    assert "at" in block(values, 3)


def test_what_is_no_number_is_nothing() -> None:
    values = torch.tensor([[float("nan"), 0.0], [0.0, 0.0]])
    assert unpacked(block(values, 2)).tolist() == [[0, 0], [0, 0]]


def test_everything_is_kept_where_it_fits() -> None:
    assert room([(12, 20, 20)] * 12, 100_000) is None


def test_the_budget_is_kept() -> None:
    maps, budget = [(12, 512, 512)] * 12, 3_000_000
    fits = room(maps, budget)
    assert fits is not None
    assert fits.mean > fits.heads >= 7
    rows = 12 * 512
    used = rows * (4 + 3 * fits.mean) + 12 * rows * (4 + 3 * fits.heads)
    assert 0.9 * budget < used <= budget
