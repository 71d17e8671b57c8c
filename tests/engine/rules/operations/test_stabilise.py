"""Division by almost nothing: 0/0 is 0, signs are kept, nothing becomes NaN."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from whyformer.engine.rules.operations.stabilise import ratio, wide

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False) | st.sampled_from([0.0, -0.0, 1e-300, -1e-300])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=8))
def test_ratio_is_the_quotient_or_zero(pairs: list[tuple[float, float]]) -> None:
    over, under = (torch.tensor(side, dtype=torch.float64) for side in zip(*pairs, strict=True))
    found = ratio(over, under)
    assert not found.isnan().any()
    for value, (a, b) in zip(found.tolist(), pairs, strict=True):
        if b == 0:
            assert value == 0
        else:
            assert value == a / b
            if value:
                assert math.copysign(1, value) == math.copysign(1, a) * math.copysign(1, b)


@given(NUMBERS, NUMBERS)
def test_epsilon_moves_away_from_zero(over: float, under: float) -> None:
    """The authors' code adds 1e-9 to -1e-9 and divides by nothing; ours keeps the side."""
    sides = (torch.tensor([side], dtype=torch.float64) for side in (over, under))
    found = ratio(*sides, epsilon=1e-9)
    expected = over / (under + math.copysign(1e-9, under)) if under else 0.0
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_wide_widens_halves_only() -> None:
    for given_dtype, expected in (
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        assert wide(torch.ones(2, dtype=given_dtype)).dtype == expected
