"""Conservation by hand, its correlation against scipy, and per layer."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import pearsonr

import whyformer as wf
from tests.metrics.making import attribution_of, stream_of
from whyformer.attribution import Attribution, Layer
from whyformer.metrics.conservation import correlation

CONSERVATION = wf.metrics()["conservation"]


def made(sums: list[float], outputs: list[float], **more: object) -> Attribution:
    """Relevance in two streams, half of it each."""
    halves = torch.tensor(sums, dtype=torch.float64).unsqueeze(1) / 2
    return attribution_of(
        stream_of(halves),
        stream_of(halves, name="image"),
        output=torch.tensor(outputs, dtype=torch.float64),
        **more,
    )


def test_by_hand() -> None:
    """Conserved; half of it; three times; the wrong sign; nothing of something; nothing at all."""
    attribution = made([2.0, 1.0, 6.0, -2.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0, 2.0, 0.0])
    score = CONSERVATION(attribution)
    assert score.values.tolist() == pytest.approx([0, 1 / 2, 2 / 3, 2, 1, 0])
    assert score.parts["relevance"].tolist() == pytest.approx([2, 1, 6, -2, 0, 0])
    absolute = CONSERVATION(attribution, error="absolute")
    assert absolute.values.tolist() == pytest.approx([0, 1, 4, 4, 2, 0])
    assert score.curve is None


def test_sinks_are_added_where_asked() -> None:
    attribution = made([1.0], [2.0], sinks={"bias": torch.tensor([1.0])})
    assert CONSERVATION(attribution).mean == pytest.approx(0.5)
    assert CONSERVATION(attribution, sinks=True).mean == pytest.approx(0, abs=1e-12)
    assert "sinks" in CONSERVATION(attribution, sinks=True).convention


def test_layers_that_were_kept_are_the_curve() -> None:
    layers = (
        Layer(relevance_sum=torch.tensor([1.0, 2.0])),
        Layer(),
        Layer(relevance_sum=torch.tensor([3.0, 4.0])),
    )
    score = CONSERVATION(made([1.0, 1.0], [1.0, 1.0], layers=layers))
    assert score.curve is not None
    assert score.curve.tolist() == [[1, 3], [2, 4]]
    assert score.steps == (0, 2)


def test_correlation_is_scipys() -> None:
    generator = torch.Generator().manual_seed(0)
    sums = torch.randn(30, generator=generator).double()
    outputs = sums + torch.randn(30, generator=generator).double()
    score = CONSERVATION(made(sums.tolist(), outputs.tolist()))
    assert correlation(score) == pytest.approx(pearsonr(sums, outputs).statistic)


def test_correlation_of_what_does_not_vary() -> None:
    for count in range(2, 20):  # the mean of equal numbers is not always that number
        rising = [float(i) for i in range(count)]
        flat = correlation(CONSERVATION(made([0.1] * count, rising)))
        assert flat == pytest.approx(0, abs=1e-12)
        both = correlation(CONSERVATION(made([0.1] * count, [0.3] * count)))
        assert both == pytest.approx(1)
    assert correlation(CONSERVATION(made([1.0], [2.0]))) == pytest.approx(1)


def test_perfect_beats_random_beats_adversarial() -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(200, generator=generator).tolist()
    chance = torch.randn(200, generator=generator).tolist()
    perfect, random, adversarial = (
        CONSERVATION(made(sums, outputs)).mean for sums in (outputs, chance, [-x for x in outputs])
    )
    assert perfect < 1e-6
    assert 0.5 < random < 1.5
    assert adversarial == pytest.approx(2)
