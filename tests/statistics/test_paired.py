"""Differences by hand, p against SciPy's t, and how often nothing is taken for something."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import stats

from whyformer.errors import InputError
from whyformer.statistics.bootstrap import Bootstrap
from whyformer.statistics.paired import (
    holm,
    mean_of,
    paired_difference,
    ratio_of,
    redraw,
    student_p,
)

FEW = Bootstrap(draws=2000)


# -- one difference --------------------------------------------------------------------------


def test_a_difference_by_hand() -> None:
    found = paired_difference([1.0, 2.0, 6.0], [0.0, 1.0, 2.0], FEW)
    assert found.value == pytest.approx(2.0)
    assert found.low <= 2.0 <= found.high


def test_what_is_the_same_for_both_methods_cancels() -> None:
    hard = (100 * torch.randn(30, generator=torch.Generator().manual_seed(0))).double()
    found = paired_difference((hard + 1).tolist(), hard.tolist(), FEW)
    assert (found.low, found.high) == pytest.approx((1.0, 1.0), abs=1e-5)
    assert found.p < 0.01


def test_equal_methods_do_not_differ() -> None:
    found = paired_difference([0.1, 0.3, 0.7], [0.1, 0.3, 0.7], FEW)
    assert (found.value, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_the_other_way_round() -> None:
    first, second = [0.3, 0.9, 0.4, 0.8], [0.2, 0.3, 0.5, 0.1]
    one, other = paired_difference(first, second, FEW), paired_difference(second, first, FEW)
    assert one.swapped.value == pytest.approx(other.value)
    assert (one.swapped.low, one.swapped.high) == pytest.approx((other.low, other.high))
    assert one.p == pytest.approx(other.p)


def test_one_sample_says_nothing_and_none_is_an_error() -> None:
    found = paired_difference([0.9], [0.1], FEW)
    assert found.value == pytest.approx(0.8)
    assert all(map(math.isnan, (found.low, found.high, found.p)))
    with pytest.raises(InputError, match="no samples"):
        paired_difference([], [], FEW)
    with pytest.raises(InputError, match="3 and 2; expected equally many"):
        paired_difference([1, 2, 3], [1, 2], FEW)


@pytest.mark.parametrize("samples", [16, 40, 100])
def test_p_and_interval_are_near_those_of_students_t(samples: int) -> None:
    """For normal differences the t-test is exact."""
    generator = torch.Generator().manual_seed(samples)
    values = torch.randn(samples, generator=generator).double() + 2 / math.sqrt(samples)
    expected = stats.ttest_1samp(values, 0.0)
    found = paired_difference(values.tolist(), [0.0] * samples)
    assert found.p == pytest.approx(expected.pvalue, rel=0.35, abs=0.01)
    low, high = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.25 * (high - low))
    # An interval that excludes 0 and a p below 5 % are the same statement.
    assert (found.low > 0 or found.high < 0) == (found.p < 0.05)


def test_p_beyond_the_draws_is_that_of_students_t() -> None:
    """No draw of 2,000 is beyond 0; the t-test of the same differences is exact."""
    generator = torch.Generator().manual_seed(4)
    values = torch.randn(30, generator=generator).double() + 1.5
    found = paired_difference(values.tolist(), [0.0] * 30, FEW)
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, rel=0.8)
    assert found.p < 1e-6
    # A constant difference has no error; two samples of it are still not enough.
    assert paired_difference([1.0] * 30, [0.5] * 30, FEW).p < 1e-6
    assert paired_difference([1.0] * 2, [0.5] * 2, FEW).p > 0.05


@pytest.mark.parametrize("samples", [16, 64])
def test_no_effect_gives_about_five_percent_false_alarms(samples: int) -> None:
    generator = torch.Generator().manual_seed(1)
    trials = 400
    alarms = 0
    for trial in range(trials):
        values = torch.rand(samples, 2, generator=generator).double() ** 2  # skewed
        found = paired_difference(
            values[:, 0].tolist(), values[:, 1].tolist(), Bootstrap(500, trial)
        )
        alarms += found.p < 0.05
    assert 0.02 < alarms / trials < 0.085  # the standard error is 0.011


def test_a_real_effect_is_found_more_often_with_more_samples() -> None:
    generator = torch.Generator().manual_seed(2)

    def share(samples: int) -> float:
        hits = 0
        for trial in range(60):
            values = torch.randn(samples, generator=generator).double() + 0.4
            hits += (
                paired_difference(values.tolist(), [0.0] * samples, Bootstrap(300, trial)).p < 0.05
            )
        return hits / 60

    assert share(16) < share(64) > 0.75


@pytest.mark.parametrize(("t", "freedom"), [(0.0, 3), (1.0, 1), (2.3, 15), (4.5, 15), (3.0, 499)])
def test_p_of_students_t_is_scipys(t: float, freedom: int) -> None:
    assert student_p(t, freedom) == pytest.approx(2 * stats.t.sf(t, freedom), rel=1e-6)
    assert student_p(-t, freedom) == student_p(t, freedom)


# -- several methods -------------------------------------------------------------------------


def test_means_of_several_methods_in_the_same_draws() -> None:
    values = torch.rand(20, 3, generator=torch.Generator().manual_seed(0))
    drawn = redraw(mean_of(values), 20, FEW)
    assert torch.allclose(drawn.values, values.double().mean(0))
    assert drawn.draws.shape == (2000, 3)
    expected = paired_difference(values[:, 0].tolist(), values[:, 2].tolist(), FEW)
    found = drawn.difference(0, 2)
    assert (found.value, found.low, found.high, found.p) == pytest.approx(
        (expected.value, expected.low, expected.high, expected.p)
    )


def test_a_ratio_of_sums_is_drawn_as_one() -> None:
    """Two images: 1 of 10 and 90 of 90 pixels. The ratio is 91 %, the mean of ratios 55 %."""
    found, there = torch.tensor([[[1.0]], [[90.0]]]), torch.tensor([[[10.0]], [[90.0]]])
    drawn = redraw(ratio_of(found, there), 2, FEW)
    assert drawn.values.tolist() == pytest.approx([0.91])
    assert sorted(set(drawn.draws.round(decimals=9).flatten().tolist())) == pytest.approx(
        [0.1, 0.91, 1.0]
    )


def test_parts_are_averaged_and_absent_ones_do_not_count() -> None:
    """mIoU of background and foreground; the second image has no foreground."""
    found = torch.tensor([[[8.0, 2.0]], [[5.0, 0.0]]])
    there = torch.tensor([[[10.0, 4.0]], [[5.0, 0.0]]])
    combine = ratio_of(found, there)
    weights = torch.tensor([[1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    assert combine(weights)[:, 0].tolist() == pytest.approx([(13 / 15 + 0.5) / 2, 1.0])
    assert math.isnan(ratio_of(found * 0, there * 0)(weights)[0, 0])


def test_draws_without_a_value_are_left_out() -> None:
    found = torch.tensor([[[1.0], [0.0]], [[0.0], [0.0]], [[1.0], [0.0]]])
    there = torch.tensor([[[1.0], [1.0]], [[0.0], [0.0]], [[1.0], [1.0]]])
    drawn = redraw(ratio_of(found, there), 3, FEW)
    assert bool(drawn.draws.isnan().any())
    assert (drawn.difference(0, 1).low, drawn.difference(0, 1).high) == (1.0, 1.0)


def test_the_same_seed_gives_the_same_draws_in_any_number_of_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    combine = mean_of(torch.rand(7, 2, generator=torch.Generator().manual_seed(0)))
    whole = redraw(combine, 7, FEW).draws
    monkeypatch.setattr("whyformer.statistics.paired.WEIGHTS_AT_ONCE", 70)
    assert torch.allclose(redraw(combine, 7, FEW).draws, whole)


# -- many comparisons ------------------------------------------------------------------------


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []
    with_gap = holm([math.nan, 0.02, 0.03])
    assert math.isnan(with_gap[0])
    assert with_gap[1:] == pytest.approx([0.04, 0.04])


def test_holm_keeps_the_chance_of_any_false_alarm_below_five_percent() -> None:
    generator = torch.Generator().manual_seed(3)
    plain = corrected = 0
    for _ in range(2000):
        p_values = torch.rand(10, generator=generator).tolist()
        plain += min(p_values) < 0.05
        corrected += min(holm(p_values)) < 0.05
    assert plain / 2000 > 0.3
    assert corrected / 2000 < 0.065
