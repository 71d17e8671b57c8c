"""ContextCite: it recovers a planted linear function, and its LASSO meets the conditions of one."""

from __future__ import annotations

import pytest
import torch

from tests.methods.removing import TEXT, explain, value
from whyformer.errors import OptionError
from whyformer.methods.context_cite import _lasso


def ablations(samples: int, units: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return (torch.rand(samples, units, generator=generator) < 0.5).double()


def test_a_planted_function_is_recovered() -> None:
    kept = ablations(64, 20)
    weights = torch.zeros(20, dtype=torch.float64)
    weights[[2, 11, 17]] = torch.tensor([3.0, -2.0, 1.0], dtype=torch.float64)
    values = kept @ weights + 5
    torch.testing.assert_close(_lasso(kept, values, 0.0), weights, rtol=0, atol=1e-8)
    sparse = _lasso(kept, values, 0.05)
    assert set(sparse.nonzero().flatten().tolist()) == {2, 11, 17}
    torch.testing.assert_close(sparse, weights, rtol=0, atol=0.5)


def test_the_fit_is_sparse_with_fewer_ablations_than_units() -> None:
    kept = ablations(40, 100)
    found = _lasso(kept, 4 * kept[:, 7] - 3 * kept[:, 50], 0.05)
    assert found.abs().argsort(descending=True)[:2].tolist() == [7, 50]
    assert found[7] > 3
    assert (found == 0).sum() > 60


@pytest.mark.parametrize("alpha", [0.01, 0.3])
def test_the_conditions_of_a_minimum_hold(alpha: float) -> None:
    """The gradient is alpha where a weight is not 0, and at most alpha elsewhere."""
    kept = ablations(50, 12)
    generator = torch.Generator().manual_seed(2)
    values = torch.randn(50, generator=generator, dtype=torch.float64)
    x = (kept - kept.mean(0)) / kept.std(0, correction=0)
    y = (values - values.mean()) / values.std(correction=0)
    found = _lasso(kept, values, alpha) * kept.std(0, correction=0) / values.std(correction=0)
    gradient = x.T @ (y - x @ found) / 50
    used = found != 0
    torch.testing.assert_close(gradient[used], alpha * found[used].sign(), rtol=0, atol=1e-9)
    assert (gradient[~used].abs() <= alpha + 1e-9).all()


def test_a_value_that_never_changes() -> None:
    assert (_lasso(ablations(16, 3), torch.full((16,), 0.1).double(), 0.01) == 0).all()


def test_sentences_are_the_units() -> None:
    """Two sentences: all four ablations are drawn, and the fit is that of the four values."""
    text = "a good film. the plot is bad!"
    found = explain(text, method="context_cite", alpha=0.0, samples=64).scores[0]
    generator = torch.Generator().manual_seed(0)
    kept = torch.rand(64, 2, generator=generator) < 0.5
    first, second, ends = range(1, 5), range(5, 10), (0, 10)
    values = [
        value(sorted([*ends, *(first if a else ()), *(second if b else ())]), text) for a, b in kept
    ]
    design = torch.cat([kept.double(), torch.ones(64, 1, dtype=torch.float64)], 1)
    expected = torch.linalg.lstsq(design, torch.tensor(values, dtype=torch.float64).unsqueeze(1))
    weights = expected.solution.flatten()
    torch.testing.assert_close(found[1:5], weights[0].expand(4) / 4)
    torch.testing.assert_close(found[5:10], weights[1].expand(5) / 5)
    assert (found[[0, 10]] == 0).all()


def test_one_sentence_is_divided_into_words() -> None:
    found = explain(TEXT, method="context_cite").scores[0]
    assert torch.equal(found, explain(TEXT, method="context_cite", unit="word").scores[0])
    assert found[2] == found[3]
    assert found.unique().numel() > 5


def test_batches_give_what_singles_give() -> None:
    texts = [TEXT, "a bad film", "the plot is good. the film is not."]
    together = explain(texts, method="context_cite", samples=32, seed=4)
    for i, text in enumerate(texts):
        alone = explain(text, method="context_cite", samples=32, seed=4)
        torch.testing.assert_close(together[i].scores, alone.scores, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("option", "number"), [("samples", 7), ("alpha", -0.1)])
def test_options_that_are_too_small(option: str, number: float) -> None:
    with pytest.raises(OptionError, match=f"{option}={number} is too small"):
        explain(method="context_cite", **{option: number})
