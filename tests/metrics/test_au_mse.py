"""AU-MSE against an example done by hand and against the authors' loop, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import auc

import whyformer as wf
from tests.metrics.making import Linear, text

AU_MSE = wf.metrics()["au_mse"]


def test_by_hand() -> None:
    """|scores| rise from the second token on: what is missing is 0, then (1, 1), then (3, 1)."""
    weights = torch.tensor([[[2.0, 0.0], [1.0, 1.0]]])
    attribution = text([[-3.0, 2.0]])
    score = AU_MSE(attribution, rerun=Linear(weights), steps=(0, 0.5, 1))
    assert score.curve is not None
    assert score.curve.tolist() == [[0, 2, 10]]
    assert score.values.tolist() == [pytest.approx(0.5 * (0 + 2) / 2 + 0.5 * (2 + 10) / 2)]
    mean = AU_MSE(attribution, rerun=Linear(weights), steps=(0, 0.5, 1), error="mean")
    assert mean.curve is not None
    assert mean.curve.tolist() == [[0, 1, 5]]
    assert "mean over classes" in mean.convention


def test_signed_order_takes_evidence_against_the_class_first() -> None:
    weights = torch.tensor([[[2.0, 0.0], [1.0, 1.0]]])
    score = AU_MSE(text([[-3.0, 2.0]]), rerun=Linear(weights), steps=(0, 0.5, 1), order="signed")
    assert score.curve is not None
    assert score.curve.tolist() == [[0, 4, 10]]


@given(tokens=st.integers(1, 30), classes=st.integers(1, 4), seed=st.integers(0, 99))
def test_as_the_authors_loop_does(tokens: int, classes: int, seed: int) -> None:
    """The `pruning` case of their flip(): argsort of |scores|, squares summed over classes."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(tokens, generator=generator).double()
    weights = torch.randn(tokens, classes, generator=generator).double()
    order = np.argsort(np.abs(scores.numpy()))
    fractions, errors = np.linspace(0.0, 1.0, 11), []
    for fraction in fractions:
        gone = order[: math.ceil(fraction * tokens - 1e-6)]
        errors.append(np.sum(weights.numpy()[gone].sum(0) ** 2))
    score = AU_MSE(text(scores.unsqueeze(0)), rerun=Linear(weights.unsqueeze(0)))
    assert score.values.tolist() == [pytest.approx(auc(fractions, errors))]
