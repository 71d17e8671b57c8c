"""Kernel SHAP against Shapley values from the definition: exact for few features, within its
stated error for sampled coalitions; scores and baseline always sum to the explained value."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from torch import Tensor

from tests.methods.removing import TEXT, explain, ids_of, shapley, value, worth_of
from whyformer.errors import OptionError
from whyformer.methods.kernel_shap import _design, _fit

SHORT = "the plot is not bad"
# [CLS] the grip ##ping plot is not bad , a good film [SEP]
TOKENS = [(column,) for column in range(1, 12)]
WORDS = [(1,), (2, 3), *((column,) for column in range(4, 12))]


@cache
def exact(unit: str) -> Tensor:
    """The Shapley value of every token or word of the text, (units,)."""
    units = TOKENS if unit == "token" else WORDS
    return torch.tensor(shapley(len(units), worth_of(units)), dtype=torch.float64)


def test_few_tokens_are_exact() -> None:
    units = [(column,) for column in range(1, 6)]
    expected = shapley(5, worth_of(units, SHORT))
    a = explain(SHORT, method="kernel_shap")
    torch.testing.assert_close(
        a.scores[0, 1:6], torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-10
    )
    assert (a.scores[0, [0, 6]] == 0).all()
    assert a.sinks["baseline"].item() == pytest.approx(value([0, 6], SHORT), abs=1e-12)
    assert a.streams["text"].errors is not None
    assert (a.streams["text"].errors == 0).all()


def test_ten_words_are_exact() -> None:
    """The default samples are all coalitions of ten units; a word's tokens share its score."""
    found = explain(method="kernel_shap", unit="word").scores[0]
    shared = torch.stack([found[list(columns)].sum() for columns in WORDS])
    torch.testing.assert_close(shared, exact("word"), rtol=0, atol=1e-10)
    assert found[2] == found[3]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("samples", [64, 256])
def test_sampled_values_are_within_their_stated_error(samples: int, seed: int) -> None:
    a = explain(method="kernel_shap", samples=samples, seed=seed)
    errors = a.streams["text"].errors
    assert errors is not None
    off = (a.scores[0, 1:12] - exact("token")).abs()
    assert (errors[0, 1:12] > 0).all()
    assert (off < 4 * errors[0, 1:12]).all()
    # ... and the statement is not idle: errors are about as large as what they state.
    assert 0.3 < (off.square().mean() / errors[0, 1:12].square().mean()).sqrt() < 2.5


def test_the_stated_error_is_the_spread_over_seeds() -> None:
    """On a random game the mean stated error is the standard deviation of the scores."""
    generator = torch.Generator().manual_seed(5)
    weights = torch.randn(14, generator=generator, dtype=torch.float64)
    pairs = torch.randn(14, 14, generator=generator, dtype=torch.float64) / 4

    def worth(coalitions: Tensor) -> Tensor:
        x = coalitions.double()
        return x @ weights + (x @ pairs * x).sum(1) + torch.sin(7 * x @ weights)

    scores, errors = [], []
    for seed in range(150):
        design = _design(14, 400, seed)
        found = _fit(design, worth(design.coalitions), worth(torch.ones(1, 14))[0])
        scores.append(found[0])
        errors.append(found[1])
    ratio = torch.stack(errors).square().mean(0).sqrt() / torch.stack(scores).std(0)
    assert 0.85 < ratio.mean() < 1.15
    assert ratio.min() > 0.7


@pytest.mark.parametrize("samples", [52, 1024, 4096])
def test_scores_and_baseline_sum_to_the_value(samples: int) -> None:
    a = explain(method="kernel_shap", samples=samples)
    total = a.scores.sum() + a.sinks["baseline"][0]
    assert total.item() == pytest.approx(value(range(len(ids_of()))), abs=1e-10)
    assert a.conservation is not None
    assert a.conservation.item() == pytest.approx(1, abs=1e-10)


def test_batches_give_what_singles_give() -> None:
    texts = [TEXT, SHORT, "a film"]
    together = explain(texts, method="kernel_shap", samples=64, seed=3)
    for i, text in enumerate(texts):
        alone = explain(text, method="kernel_shap", samples=64, seed=3)
        torch.testing.assert_close(together[i].scores, alone.scores, rtol=0, atol=1e-10)
        one, other = together[i].streams["text"].errors, alone.streams["text"].errors
        assert one is not None
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def test_samples_bound_the_forwards() -> None:
    assert len(_design(30, 200, 0).coalitions) <= 200
    assert len(_design(7, 128, 0).coalitions) == 127  # all but the whole input, which is known


@pytest.mark.parametrize("samples", [-1, 0, 40])
def test_too_few_samples(samples: int) -> None:
    with pytest.raises(OptionError, match=f"samples={samples} is too few for 11 units.*least 44"):
        explain(method="kernel_shap", samples=samples)
