"""Conservation by hand, its correlation against scipy, and per layer."""

from __future__ import annotations

import warnings

import pytest
import torch
from scipy.stats import pearsonr

import whyformer as wf
from tests.metrics.making import attribution_of, stream_of
from whyformer.attribution import Attribution, Layer
from whyformer.errors import ConservationWarning
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
    """All; half; three times; the wrong sign, once and twice; nothing of something; of nothing."""
    sums = [2.0, 1.0, 6.0, -2.0, -4.0, 0.0, 0.0, 3.0]
    score = CONSERVATION(made(sums, [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 0.0, 0.0]))
    assert score.values.tolist() == pytest.approx([1, 1 / 2, 1 / 3, -1, -1 / 2, 0, 1, 0])
    assert score.parts["relevance"].tolist() == pytest.approx(sums)
    assert score.curve is None
    assert CONSERVATION.better == "higher"


def test_sinks_are_added_unless_asked_otherwise() -> None:
    attribution = made([1.0], [2.0], sinks={"bias": torch.tensor([1.0])})
    assert CONSERVATION(attribution).mean == pytest.approx(1)
    assert "and sinks" in CONSERVATION(attribution).convention
    assert CONSERVATION(attribution, sinks=False).mean == pytest.approx(0.5)
    assert "sinks" not in CONSERVATION(attribution, sinks=False).convention


def test_it_means_what_explain_says() -> None:
    """The same number as the attribution's own, up to 1 in size; above, its inverse."""
    texts = ["a gripping, beautifully acted film", "dull, and far too long", "it is what it is"]
    for options in ({}, {"activations": "identity"}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConservationWarning)
            found = wf.explain(texts, "sst2", method="lrp_ah_ln", **options)
        assert found.conservation is not None
        ratio = found.conservation.double()
        expected = torch.where(ratio.abs() > 1, 1 / ratio, ratio)
        torch.testing.assert_close(CONSERVATION(found).values, expected, atol=1e-5, rtol=0)


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
    assert perfect == pytest.approx(1)
    assert -0.5 < random < 0.5
    assert adversarial == pytest.approx(-1)
