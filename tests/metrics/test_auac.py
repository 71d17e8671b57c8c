"""AUAC against an example done by hand and against the authors' loop, written out."""

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

AUAC = wf.metrics()["auac"]


def test_by_hand() -> None:
    """Logits of class 0 as tokens come, highest score first: 0, 2, 3, 3."""
    weights = torch.tensor([[[1.0, 0.0], [0.0, 0.0], [2.0, 0.0]]])
    score = AUAC(text([[2.0, 1.0, 3.0]]), rerun=Linear(weights), steps=(0, 0.3, 0.6, 1))
    heights = torch.tensor([0.0, 2.0, 3.0, 3.0]).double().sigmoid()
    assert score.curve is not None
    torch.testing.assert_close(score.curve, heights.unsqueeze(0))
    a, b, c, d = heights.tolist()
    area = 0.3 * (a + b) / 2 + 0.3 * (b + c) / 2 + 0.4 * (c + d) / 2
    assert score.values.tolist() == [pytest.approx(area)]


def test_logits_by_hand() -> None:
    weights = torch.tensor([[[1.0, 9.0], [0.0, 9.0], [2.0, 9.0]]])
    score = AUAC(
        text([[2.0, 1.0, 3.0]]), rerun=Linear(weights), steps=(0, 0.3, 0.6, 1), measure="logit"
    )
    assert score.curve is not None
    assert score.curve.tolist() == [[0, 2, 3, 3]]
    assert score.convention.startswith("logit of the target class")


def test_eleven_steps_from_an_empty_input_to_the_whole() -> None:
    rerun = Linear(torch.zeros(1, 7, 2))
    score = AUAC(text([[1.0] * 7]), rerun=rerun)
    assert score.steps == pytest.approx([i / 10 for i in range(11)])
    counts = [int(call["text"].sum()) for call in rerun.calls[1:]]
    assert counts == [0, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7]


@given(tokens=st.integers(1, 30), classes=st.integers(2, 4), seed=st.integers(0, 99))
def test_as_the_authors_loop_does(tokens: int, classes: int, seed: int) -> None:
    """The `generate` case of their flip(): argsort of the scores, backwards, ceil of the share."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(tokens, generator=generator).double()
    weights = torch.randn(tokens, classes, generator=generator).double()
    order = np.argsort(scores.numpy())[::-1]
    fractions, evidence = np.linspace(0.0, 1.0, 11), []
    for fraction in fractions:
        # Theirs has no 1e-6, so that 3.0000000000000004 of ten tokens are four.
        chosen = order[: math.ceil(fraction * tokens - 1e-6)].copy()
        logits = np.exp(weights.numpy()[chosen].sum(0))
        evidence.append(logits[0] / logits.sum())
    score = AUAC(text(scores.unsqueeze(0)), rerun=Linear(weights.unsqueeze(0)))
    assert score.values.tolist() == [pytest.approx(auc(fractions, evidence))]
