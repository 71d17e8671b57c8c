"""Means, their intervals, and combined batches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from whyformer.errors import InputError, OptionError
from whyformer.metrics import Score, combine_scores, interval
from whyformer.statistics import bootstrap as under_test


def test_the_mean_is_of_the_values() -> None:
    assert Score(torch.tensor([1.0, 2.0, 6.0])).mean == pytest.approx(3)
    assert len(Score(torch.tensor([1.0, 2.0, 6.0]))) == 3


def test_shares_are_summed_before_they_are_divided() -> None:
    """1 of 1 and 1 of 3: two of four, not the mean of 1 and 1/3. An absent part does not count."""
    found, there = torch.tensor([[1.0, 0.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    assert Score(torch.tensor([1.0, 1 / 3]), shares=(found, there)).mean == pytest.approx(0.5)
    nothing = Score(torch.zeros(2), shares=(found * 0, there * 0))
    assert math.isnan(nothing.mean)
    assert all(math.isnan(end) for end in interval(nothing))


def test_an_interval_holds_the_mean_and_is_the_same_again() -> None:
    values = torch.randn(200, generator=torch.Generator().manual_seed(0)).double()
    score = Score(values)
    low, high = interval(score, seed=3)
    assert low < score.mean < high
    assert (low, high) == interval(score, seed=3)
    assert (low, high) != interval(score, seed=4)
    # About 1.96 standard errors to each side.
    width = 2 * 1.96 * float(values.std()) / math.sqrt(200)
    assert high - low == pytest.approx(width, rel=0.15)
    narrow = interval(score, level=0.5, seed=3)
    assert narrow[1] - narrow[0] < 0.5 * (high - low)


def test_an_interval_is_about_scipys() -> None:
    values = torch.rand(50, generator=torch.Generator().manual_seed(1)).double() ** 3
    theirs = bootstrap(
        (values.numpy(),), np.mean, n_resamples=4000, method="percentile", rng=0
    ).confidence_interval
    ours = interval(Score(values), draws=4000)
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.01)


def test_an_interval_of_shares_redraws_samples() -> None:
    there = torch.tensor([[1.0], [1.0], [98.0]])
    score = Score(torch.ones(3), shares=(torch.tensor([[1.0], [1.0], [0.0]]), there))
    low, high = interval(score)
    assert score.mean == pytest.approx(0.02)
    assert low == pytest.approx(0, abs=1e-12)
    assert high == pytest.approx(1)  # one draw in 27 leaves the large sample out


def test_one_sample_has_no_spread() -> None:
    assert interval(Score(torch.tensor([0.25]))) == pytest.approx((0.25, 0.25))


def test_drawing_in_parts_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    found = torch.rand(20, 1, generator=torch.Generator().manual_seed(0))
    score = Score(found.squeeze(1), shares=(found, torch.ones(20, 1)))
    whole = interval(score)
    monkeypatch.setattr(under_test, "PICKS_AT_ONCE", 50)
    assert interval(score) == pytest.approx(whole, rel=1e-12)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(OptionError, match="level=1"):
        interval(Score(torch.ones(2)), level=1)
    with pytest.raises(OptionError, match="draws=0"):
        interval(Score(torch.ones(2)), draws=0)
    with pytest.raises(InputError, match="no samples"):
        interval(Score(torch.ones(0)))


def test_batches_are_put_together() -> None:
    parts = [
        Score(
            torch.full((n,), float(n)),
            torch.ones(n, 2),
            (0.0, 1.0),
            "how",
            {"x": torch.zeros(n)},
            (torch.ones(n, 1), torch.full((n, 1), 2.0)),
        )
        for n in (1, 2)
    ]
    whole = combine_scores(parts)
    assert whole.values.tolist() == [1, 2, 2]
    assert whole.curve is not None
    assert whole.curve.shape == (3, 2)
    assert (whole.steps, whole.convention) == ((0, 1), "how")
    assert whole.parts["x"].shape == (3,)
    assert whole.mean == pytest.approx(0.5)
    plain = combine_scores([Score(torch.ones(1)), Score(torch.zeros(1))])
    assert plain.curve is None
    assert plain.mean == pytest.approx(0.5)


def test_other_conventions_do_not_mix() -> None:
    with pytest.raises(InputError, match="different conventions"):
        combine_scores([Score(torch.ones(1), convention="a"), Score(torch.ones(1), convention="b")])
    with pytest.raises(InputError, match="no scores"):
        combine_scores([])
