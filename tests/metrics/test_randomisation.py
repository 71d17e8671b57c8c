"""Randomisation: a map that ignores the weights is detected."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import spearmanr

import whyformer as wf
from tests.metrics.making import text
from whyformer.errors import InputError

RANDOMISATION = wf.metrics()["randomisation"]


def scores(seed: int, batch: int = 20, tokens: int = 15) -> torch.Tensor:
    return torch.randn(batch, tokens, generator=torch.Generator().manual_seed(seed)).double()


def test_by_hand() -> None:
    """|scores| rank 2 1 0 and 0 1 2."""
    found = RANDOMISATION(text([[-3.0, 2.0, 1.0]]), other=text([[1.0, 2.0, -3.0]]))
    assert found.mean == pytest.approx(-1)
    signed = RANDOMISATION(text([[-3.0, 2.0, 1.0]]), other=text([[-3.0, 2.0, 1.0]]), absolute=False)
    assert signed.mean == pytest.approx(1)


def test_against_scipy() -> None:
    one, other = scores(0), scores(1)
    found = RANDOMISATION(text(one), other=text(other)).values.tolist()
    expected = [spearmanr(a.abs(), b.abs()).statistic for a, b in zip(one, other, strict=True)]
    assert found == pytest.approx(expected)


def test_one_attribution_for_each_further_layer() -> None:
    one = scores(0)
    others = [text(one + spread * scores(1)) for spread in (0.0, 0.3, 100.0)]
    score = RANDOMISATION(text(one), other=others)
    assert score.curve is not None
    assert score.steps == (1, 2, 3)
    falling = score.curve.mean(0).tolist()
    assert falling[0] == pytest.approx(1)
    assert 0.5 < falling[1] < 0.95
    assert abs(falling[2]) < 0.3
    torch.testing.assert_close(score.values, score.curve.mean(1))
    for i, other in enumerate(others):
        torch.testing.assert_close(RANDOMISATION(text(one), other=other).values, score.curve[:, i])


def test_a_map_that_ignores_the_weights_is_worst() -> None:
    same, changed = (RANDOMISATION(text(scores(0)), other=text(scores(s))).mean for s in (0, 1))
    flat = RANDOMISATION(text(torch.ones(2, 5)), other=text(torch.ones(2, 5))).mean
    assert same == pytest.approx(1)
    assert flat == pytest.approx(1)
    assert changed < 0.3


def test_no_other_model_is_refused() -> None:
    with pytest.raises(InputError, match="at least one"):
        RANDOMISATION(text([[1.0]]), other=[])
