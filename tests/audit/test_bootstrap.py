"""Figures by hand, the same seed the same interval, and what an interval must do."""

from __future__ import annotations

import pytest
import torch

from whyformer.audit.bootstrap import Bootstrap, Estimate, same_lengths
from whyformer.errors import OptionError

FIRST = torch.tensor([[1.0, 3.0], [5.0, 7.0]])  # two templates, two names
SECOND = torch.tensor([[0.0, 2.0, 4.0], [3.0, 3.0, 3.0]])


def test_the_difference_of_means_over_the_same_templates() -> None:
    found = Bootstrap(200).grid_difference(FIRST, SECOND)
    assert found.value == pytest.approx(4.0 - 2.5)
    assert found.low <= found.value <= found.high


def test_the_interval_is_that_of_draws_made_by_hand() -> None:
    bootstrap = Bootstrap(draws=300, seed=5)
    generator = torch.Generator().manual_seed(5)
    rows, ours, theirs = (
        torch.randint(count, (300, count), generator=generator) for count in (2, 2, 3)
    )
    means = torch.tensor(
        [
            FIRST[rows[d]][:, ours[d]].mean() - SECOND[rows[d]][:, theirs[d]].mean()
            for d in range(300)
        ],
        dtype=torch.float64,
    )
    found = bootstrap.grid_difference(FIRST, SECOND)
    low, high = torch.quantile(means, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-6)


def test_the_same_seed_gives_the_same_interval_and_another_another() -> None:
    torch.manual_seed(0)
    values = torch.randn(6, 5)
    assert Bootstrap(100, 1).grid_mean(values) == Bootstrap(100, 1).grid_mean(values)
    assert Bootstrap(100, 1).grid_mean(values) != Bootstrap(100, 2).grid_mean(values)


def test_what_is_the_same_for_both_groups_cancels_in_every_draw() -> None:
    template = torch.randn(8, 1, dtype=torch.float64) * 100
    found = Bootstrap(100).grid_difference(template + torch.zeros(8, 3), template + 1.0)
    assert (found.value, found.low, found.high) == pytest.approx((-1.0, -1.0, -1.0))
    assert found.clear


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    generator = torch.Generator().manual_seed(0)
    covered = 0
    for seed in range(60):
        templates = torch.randn(20, 1, generator=generator)
        one = templates + torch.randn(1, 20, generator=generator)
        two = templates + torch.randn(1, 20, generator=generator)
        found = Bootstrap(200, seed).grid_difference(one, two)
        covered += found.low <= 0 <= found.high
    assert 50 <= covered <= 60  # 95 % of 60 is 57


def test_weights_make_groups_of_the_same_lengths() -> None:
    weights = same_lengths([1, 1, 2], [1, 2, 2, 3])
    assert weights is not None
    assert weights[0].tolist() == pytest.approx([0.5, 0.5, 1.0])
    assert weights[1].tolist() == pytest.approx([1.0, 0.5, 0.5, 0.0])
    assert same_lengths([1], [2]) is None
    ours = torch.tensor([[1.0, 3.0, 10.0]])
    theirs = torch.tensor([[0.0, 4.0, 6.0, 99.0]])
    found = Bootstrap(50).grid_difference(ours, theirs, weights)
    assert found.value == pytest.approx((0.5 * 1 + 0.5 * 3 + 10) / 2 - (0.5 * 4 + 0.5 * 6) / 2)


def test_swaps_within_a_group_leave_a_name_and_itself_out() -> None:
    values = torch.tensor([[0.0, 1.0, 1.0]])
    distance = (values[:, :, None] - values[:, None, :]).abs()
    found = Bootstrap(100).pairs(distance, 1 - torch.eye(3), within=True)
    assert found is not None
    assert found.value == pytest.approx(4 / 6)
    assert Bootstrap(10).pairs(torch.zeros(1, 1, 1), torch.zeros(1, 1), within=True) is None


def test_swaps_between_groups() -> None:
    distance = torch.tensor([[[1.0, 0.0]], [[1.0, 1.0]]])  # 2 templates, 1 name, 2 others
    found = Bootstrap(100).pairs(distance, torch.ones(1, 2), within=False)
    assert found is not None
    assert found.value == pytest.approx(0.75)
    assert 0 <= found.low <= found.high <= 1


def test_pairs_in_parts_are_pairs_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    distance, counts = torch.rand(3, 4, 4, dtype=torch.float64), 1 - torch.eye(4)
    whole = Bootstrap(50).pairs(distance, counts, within=True)
    monkeypatch.setattr("whyformer.audit.bootstrap.CELLS", 40)
    parts = Bootstrap(50).pairs(distance, counts, within=True)
    assert whole is not None
    assert parts is not None
    assert (parts.low, parts.high) == pytest.approx((whole.low, whole.high))


def test_groups_of_samples_apart() -> None:
    found = Bootstrap(200).apart([1.0, 3.0, None, None], [None, 1.0, 2.0, 0.0])
    assert found.value == pytest.approx(2.0 - 1.0)
    assert found.low <= 1.0 <= found.high


def test_a_mean_over_samples() -> None:
    found = Bootstrap(200).mean([1.0, 2.0, 6.0])
    assert found.value == pytest.approx(3.0)
    assert 1.0 <= found.low <= 3.0 <= found.high <= 6.0


def test_an_interval_that_leaves_0_out_is_clear() -> None:
    assert Estimate(1, 0.5, 2).clear
    assert Estimate(-1, -2, -0.5).clear
    assert not Estimate(1, -0.5, 2).clear
    assert not Estimate(0, 0, 0).clear
    assert not Estimate(1, float("nan"), float("nan")).clear


@pytest.mark.parametrize(("draws", "level"), [(0, 0.95), (True, 0.95), (10, 0), (10, 1)])
def test_impossible_settings_are_refused(draws: int, level: float) -> None:
    with pytest.raises(OptionError):
        Bootstrap(draws, 0, level)
