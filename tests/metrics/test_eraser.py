"""Comprehensiveness and sufficiency by hand and against ERASER's formulas in a slow loop."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import whyformer as wf
from tests.metrics.making import Linear, text

COMPREHENSIVENESS = wf.metrics()["comprehensiveness"]
SUFFICIENCY = wf.metrics()["sufficiency"]


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def test_by_hand() -> None:
    """Tokens weigh 3, 2, 1, 0: the top half is 5 of 6, and one token is 3 of 6."""
    weights = torch.tensor([[[3.0, 0.0], [2.0, 0.0], [1.0, 0.0], [0.0, 0.0]]])
    attribution, whole = text([[4.0, 3.0, 2.0, 1.0]]), sigmoid(6)
    score = COMPREHENSIVENESS(attribution, rerun=Linear(weights), bins=(0.01, 0.5))
    assert score.curve is not None
    assert score.curve[0].tolist() == pytest.approx([whole - sigmoid(3), whole - sigmoid(1)])
    assert score.values.tolist() == pytest.approx([float(score.curve.mean())])
    score = SUFFICIENCY(attribution, rerun=Linear(weights), bins=(0.01, 0.5))
    assert score.curve is not None
    assert score.curve[0].tolist() == pytest.approx([whole - sigmoid(3), whole - sigmoid(5)])


def test_the_bins_are_erasers() -> None:
    rerun = Linear(torch.zeros(1, 100, 2))
    score = COMPREHENSIVENESS(text(torch.arange(100.0).unsqueeze(0)), rerun=rerun)
    assert score.steps == (0.01, 0.05, 0.1, 0.2, 0.5)
    assert [100 - int(call["text"].sum()) for call in rerun.calls] == [0, 1, 5, 10, 20, 50]
    assert "0.01, 0.05, 0.1, 0.2, 0.5" in score.convention


@given(tokens=st.integers(1, 30), classes=st.integers(2, 4), seed=st.integers(0, 99))
def test_against_the_formulas(tokens: int, classes: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(tokens, generator=generator).double()
    weights = torch.randn(tokens, classes, generator=generator).double()

    def probabilities(chosen: set[int]) -> list[float]:
        logits = [sum(float(weights[t, c]) for t in chosen) for c in range(classes)]
        total = sum(math.exp(x) for x in logits)
        return [math.exp(x) / total for x in logits]

    everything = set(range(tokens))
    full = probabilities(everything)
    answer = max(range(classes), key=lambda c: full[c])
    ranked = sorted(everything, key=lambda t: -float(scores[t]))
    lost, missing = [], []
    for share in (0.01, 0.05, 0.1, 0.2, 0.5):
        top = set(ranked[: math.ceil(share * tokens - 1e-6)])
        lost.append(full[answer] - probabilities(everything - top)[answer])
        missing.append(full[answer] - probabilities(top)[answer])
    attribution, rerun = text(scores.unsqueeze(0)), Linear(weights.unsqueeze(0))
    found = COMPREHENSIVENESS(attribution, rerun=rerun).mean
    assert found == pytest.approx(sum(lost) / 5)
    assert SUFFICIENCY(attribution, rerun=rerun).mean == pytest.approx(sum(missing) / 5)
