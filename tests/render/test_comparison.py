"""Comparisons: one input only, and columns with distinct titles."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.render.comparison import compare_samples

Make = Callable[..., Attribution]


def titles(*attributions: Attribution) -> tuple[str, ...]:
    return compare_samples(attributions)[0].titles


def test_methods_are_the_titles(sentence: Make) -> None:
    assert titles(sentence(), sentence(method="gae")) == ("lrp_ah_ln", "gae")


def test_namesakes_differ_by_their_options(sentence: Make) -> None:
    one, other = {"start_layer": 0, "seed": 1}, {"start_layer": 2, "seed": 1}
    made = [
        sentence(method="gae", options=one),
        sentence(method="gae", options=other),
        sentence(options={"at": "states"}),
    ]
    assert titles(*made) == ("gae, start_layer=0", "gae, start_layer=2", "lrp_ah_ln")


def test_different_targets_differ_by_their_labels(sentence: Make) -> None:
    made = (sentence(label="good"), sentence(label="bad"))
    assert titles(*made) == ("lrp_ah_ln, good", "lrp_ah_ln, bad")


def test_other_inputs_are_refused(sentence: Make, text: Make, image: Make) -> None:
    with pytest.raises(InputError, match=r"'gae' has .*text of 1 words.*text of 6 words"):
        compare_samples([sentence(), text([("other", 1.0, 0)], method="gae")])
    with pytest.raises(InputError, match="image of 2 x 2 patches"):
        compare_samples([sentence(), image(torch.ones(2, 2))])


def test_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        compare_samples([])


def test_panels_line_up(sentence: Make) -> None:
    sample = compare_samples([sentence(), sentence(method="gae")])[0]
    ((one, other),) = sample.rows
    assert one.name == other.name == "text"


def test_the_same_sum_is_said_once(sentence: Make) -> None:
    made = [
        sentence(method="gae"),
        sentence(conservation=torch.tensor([1.0])),
        sentence(method="rollout"),
    ]
    (first, not_expected), (second, whole) = compare_samples(made)[0].trusts
    assert (first, second) == ("gae, rollout", "lrp_ah_ln")
    assert "not expected to sum" in not_expected.trust
    assert "sum to the output" in whole.trust
