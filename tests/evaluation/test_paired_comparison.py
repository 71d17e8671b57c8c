"""Who beats whom, by hand: clear winners, ties, missing samples, ratios of sums, several tasks."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.evaluation.conftest import known, row
from whyformer.evaluation.paired_comparison import (
    MeasureConclusion,
    TaskConclusion,
    conclude,
    standings,
)
from whyformer.evaluation.results import Results
from whyformer.statistics.bootstrap import Bootstrap

Make = Callable[..., Results]
FEW = Bootstrap(draws=2000)


def only(found: list[MeasureConclusion]) -> MeasureConclusion:
    (one,) = found
    return one


def noisy(mean: float, seed: int, count: int = 40) -> list[float]:
    generator = torch.Generator().manual_seed(seed)
    return (mean + 0.1 * torch.randn(count, generator=generator)).tolist()


def three() -> dict[str, list[float]]:
    """Two methods that differ by noise alone, and one that is far behind."""
    return {"a": noisy(0.8, 0), "b": noisy(0.805, 1), "worse": noisy(0.4, 2)}


def test_the_best_those_level_with_it_and_who_beats_whom(tiny: Make) -> None:
    found = only(conclude(tiny({"m": three()}), FEW))
    assert found.samples == 40
    assert {found.best, *found.level_with_best} == {"a", "b"}
    assert found.level_with_best[0] == found.best
    assert found.ranks["worse"] == 3
    assert found.beats("a", "worse")
    assert found.beats("b", "worse")
    assert not found.beats("worse", "a")
    assert not found.beats("a", "b")
    assert all(one.difference.value > 0 for one in found.victories)


def test_lower_may_be_better_and_neither_is_left_out(tiny: Make) -> None:
    found = only(conclude(tiny({"m": three()}, {"m": known("lower")}), FEW))
    assert (found.best, found.level_with_best) == ("worse", ("worse",))
    assert found.beats("worse", "a")
    assert found.victories[0].difference.value < 0  # in the measure's own direction
    assert conclude(tiny({"m": three()}, {"m": known("neither")}), FEW) == []


def test_equal_methods_share_a_rank_and_beat_nobody(tiny: Make) -> None:
    values = noisy(0.5, 3)
    found = only(conclude(tiny({"m": {"a": values, "b": values}}), FEW))
    assert dict(found.ranks) == {"a": 1, "b": 1}
    assert (found.level_with_best, found.victories) == (("a", "b"), ())


def test_overlapping_intervals_may_still_differ_on_almost_every_sample(tiny: Make) -> None:
    hard = noisy(0.5, 4)
    found = only(conclude(tiny({"m": {"a": hard, "b": [v - 0.02 for v in hard]}}), FEW))
    assert found.beats("a", "b")


def test_one_method_or_one_sample_allows_no_conclusion(tiny: Make) -> None:
    assert conclude(tiny({"m": {"a": [0.1, 0.2]}}), FEW) == []
    assert conclude(tiny({"m": {"a": [0.1], "b": [0.2]}}), FEW) == []
    assert conclude(Results([], {"metrics": {}}), FEW) == []


def test_methods_are_compared_on_the_samples_they_share() -> None:
    """Alone, the sample that only b has would put b first."""
    rows = [row("a", "m", f"s{i}", 0.5 + 0.01 * i) for i in range(20)]
    rows += [row("b", "m", f"s{i}", 0.4 + 0.01 * i) for i in reversed(range(20))]
    rows.append(row("b", "m", "more", 99.0))
    found = only(conclude(Results(rows, {"metrics": {"m": known()}}), FEW))
    assert (found.samples, found.best) == (20, "a")
    assert found.means == pytest.approx({"a": 0.595, "b": 0.495})


def test_ratios_of_sums_are_not_means_of_ratios() -> None:
    """a is right on the large image, b on the small ones: sums over pixels say a, means b."""
    rows = []
    for i in range(20):
        large = i % 2 == 0
        for method, right in (("a", large), ("b", not large)):
            there = 1000.0 if large else 10.0
            found = there if right else 0.0
            rows.append(row(method, "m", f"s{i}", found / there, found=[found], there=[there]))
    found = only(conclude(Results(rows, {"metrics": {"m": known()}}), FEW))
    assert found.best == "a"
    assert found.means["a"] == pytest.approx(1000 / 1010)
    assert found.beats("a", "b")


def test_samples_that_do_not_count_are_not_counted() -> None:
    rows = [
        row(method, "m", f"s{i}", value, found=[value * (i > 0)], there=[float(i > 0)])
        for method, value in (("a", 1.0), ("b", 0.0))
        for i in range(9)
    ]
    assert only(conclude(Results(rows, {"metrics": {"m": known()}}), FEW)).samples == 8


# -- several tasks ---------------------------------------------------------------------------


def task(name: str, tiny: Make, values: dict[str, dict[str, list[float]]]) -> TaskConclusion:
    return TaskConclusion(name, tuple(conclude(tiny(values), FEW)))


def test_a_task_is_won_by_some_measure_and_lost_by_none(tiny: Make) -> None:
    low, high = noisy(0.2, 5), noisy(0.8, 6)
    won = task("won", tiny, {"m": {"a": high, "b": low}, "n": {"a": high, "b": high}})
    split = task("split", tiny, {"m": {"a": high, "b": low}, "n": {"a": low, "b": high}})
    assert won.beats("a", "b")
    assert won.beaten_by("b") == ("a",)
    assert not split.beats("a", "b")
    assert not split.beats("b", "a")


def test_standings_count_the_tasks_on_which_a_method_is_beaten(tiny: Make) -> None:
    low, high = noisy(0.2, 5), noisy(0.8, 6)
    tasks = [
        task("one", tiny, {"m": {"good": high, "poor": low, "odd": low}}),
        task("two", tiny, {"m": {"good": high, "poor": low, "odd": high}}),
        task("three", tiny, {"m": {"good": high, "poor": low}}),
    ]
    good, odd, poor = standings(tasks)
    assert (good.method, odd.method, poor.method) == ("good", "odd", "poor")
    assert (good.beaten_on, good.rival, good.tasks, good.first, good.measures) == ((), "", 3, 3, 3)
    assert (odd.beaten_on, odd.rival, odd.tasks, odd.level) == (("one",), "good", 2, 1)
    assert (poor.rival, poor.rival_tasks) == ("good", ("one", "two", "three"))
    assert poor.beaten_on == ("one", "two", "three")
    assert good.mean_rank == 1.0
