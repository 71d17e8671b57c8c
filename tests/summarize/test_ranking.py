"""Rankings by hand: means, counter-examples, both sides, two models."""

from __future__ import annotations

import pytest

from whyformer.statistics.bootstrap import Bootstrap
from whyformer.summarize.parts import ExplainedSample
from whyformer.summarize.ranking import compare_models, rank_parts

BOOTSTRAP = Bootstrap(draws=200, seed=0)


def sample(name: str, label: str, **shares: float) -> ExplainedSample:
    return ExplainedSample(name, label, 1.0, shares)


SAMPLES = [
    sample("a", "good", warm=0.6, film=0.1, dull=-0.3),
    sample("b", "good", warm=0.4, film=-0.2, dull=-0.4),
    sample("c", "bad", dull=0.9, film=0.1),
    sample("d", "good", warm=-0.1, film=0.05),
]


def test_each_class_has_its_parts_and_their_mean_share() -> None:
    good, bad = rank_parts(SAMPLES, BOOTSTRAP, min_count=1)
    assert (good.label, good.samples, bad.label, bad.samples) == ("good", 3, "bad", 1)
    warm = good.supporting[0]
    assert (warm.part, warm.samples) == ("warm", 3)
    assert warm.share.value == pytest.approx(0.3)
    assert warm.share.low < 0.3 < warm.share.high
    assert warm.supports == pytest.approx(2 / 3)
    assert [one.part for one in good.opposing] == ["dull", "film"]
    assert good.opposing[0].share.value == pytest.approx(-0.35)
    assert [one.part for one in bad.supporting] == ["dull", "film"]


def test_examples_are_the_strongest_samples_of_each_side() -> None:
    good, bad = rank_parts(SAMPLES, BOOTSTRAP, min_count=1)
    assert (good.supporting[0].example, good.supporting[0].counter) == ("a", "d")
    dull = good.opposing[0]
    assert (dull.example, dull.counter) == ("b", None)
    assert bad.supporting[0].counter is None


def test_rare_parts_are_left_out() -> None:
    good, bad = rank_parts(SAMPLES, BOOTSTRAP, min_count=3)
    assert {one.part for one in (*good.supporting, *good.opposing)} == {"warm", "film"}
    assert not bad.supporting


def test_a_rare_part_needs_more_to_come_first() -> None:
    """The wide interval of two samples puts it behind twenty that agree."""
    steady = [sample(str(i), "good", steady=0.3) for i in range(20)]
    rare = [sample("x", "good", rare=0.8), sample("y", "good", rare=-0.1)]
    (good,) = rank_parts([*steady, *rare], BOOTSTRAP, min_count=1)
    assert [one.part for one in good.supporting] == ["steady", "rare"]
    assert good.supporting[1].share.value > good.supporting[0].share.value


def test_two_models_are_compared_on_samples_with_the_same_class() -> None:
    other = [
        sample("a", "good", warm=0.1, film=0.1),
        sample("b", "good", warm=0.1, film=-0.2),
        sample("c", "good", dull=0.9, film=0.5),  # the other class: not compared
        sample("d", "good", warm=0.1, film=0.05),
    ]
    warm, film = compare_models(SAMPLES, other, BOOTSTRAP, min_count=2)
    assert (warm.part, warm.samples, film.part) == ("warm", 3, "film")
    assert (warm.first, warm.second) == (pytest.approx(0.3), pytest.approx(0.1))
    assert warm.difference.value == pytest.approx(0.2)
    assert film.difference.value == 0
    assert not film.difference.clear
