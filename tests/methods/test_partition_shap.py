"""Partition SHAP against Owen values from the definition: a mean over orders of the halves."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch

import whyformer as wf
from tests.methods.removing import TEXT, explain, ids_of, value, worth_of
from whyformer.errors import OptionError
from whyformer.methods.partition_shap import _divide
from whyformer.methods.perturbation.hierarchy import Tree, leaves
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs


def orders(tree: Tree) -> list[list[int]]:
    """Every order of the features in which no group is interrupted by another."""
    if isinstance(tree, int):
        return [[tree]]
    first, second = orders(tree[0]), orders(tree[1])
    pairs = list(product(first, second))
    return [a + b for a, b in pairs] + [b + a for a, b in pairs]


def owen(tree: Tree, worth: dict[frozenset[int], float]) -> list[float]:
    """What each feature adds to those before it, on average over all such orders."""
    scores = [0.0] * len(leaves(tree))
    every = orders(tree)
    for order in every:
        for place, feature in enumerate(order):
            before = frozenset(order[:place])
            scores[feature] += (worth[before | {feature}] - worth[before]) / len(every)
    return scores


def run(tree: Tree, samples: int, worth: dict[frozenset[int], float]) -> tuple[list[float], int]:
    """The scores of a division, and how many values it asked for."""
    count = len(leaves(tree))
    division = _divide(tree, samples, worth[frozenset()], worth[frozenset(range(count))])
    asked, answer = 0, None
    while True:
        try:
            coalitions = division.send(answer)
        except StopIteration as done:
            return done.value, asked
        asked += len(coalitions)
        answer = [worth[frozenset(i for i in range(count) if c >> i & 1)] for c in coalitions]


def test_a_text_equals_the_definition() -> None:
    """[CLS] a good film . the grip ##ping plot ! [SEP]: sentences, then words, then tokens."""
    text = "a good film. the gripping plot!"
    tree: Tree = (((0, 1), (2, 3)), ((4, (5, 6)), (7, 8)))
    worth = worth_of([(column,) for column in range(1, 10)], text)
    a = explain(text, method="partition_shap")
    expected = torch.tensor(owen(tree, worth), dtype=torch.float64)
    torch.testing.assert_close(a.scores[0, 1:10], expected, rtol=0, atol=1e-10)
    assert (a.scores[0, [0, 10]] == 0).all()


def test_an_image_is_halved_along_its_longer_side() -> None:
    """2 x 2 patches: upper and lower half, then left and right."""
    model: Any = families["vit"].tiny().double()
    pixels = tiny_inputs(model, (1,))["pixel_values"]
    a = wf.explain({"pixel_values": pixels}, model, method="partition_shap", target=1, samples=4096)
    rows, _ = a.streams["image"].grid or (0, 0)
    half = a.streams["image"].score_map[0, : rows // 2].sum().item()
    with torch.no_grad():

        def worth(*kept: slice) -> float:
            new = torch.zeros_like(pixels)
            for area in kept:
                new[:, :, area] = pixels[:, :, area]
            found: float = model(new).logits[0, 1].item()
            return found

        middle = pixels.shape[2] * (rows // 2) // rows
        upper, lower = slice(0, middle), slice(middle, None)
        expected = (worth(upper) - worth() + worth(upper, lower) - worth(lower)) / 2
    assert half == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("samples", [3, 9, 40, 500])
def test_scores_and_baseline_sum_to_the_value(samples: int) -> None:
    a = explain(method="partition_shap", samples=samples)
    total = a.scores.sum() + a.sinks["baseline"][0]
    assert total.item() == pytest.approx(value(range(len(ids_of()))), abs=1e-10)


def test_what_is_not_divided_is_shared_evenly_and_the_largest_is_divided_first() -> None:
    """One pair of halves: features 0 and 1 add 10, features 2 and 3 add 1 and -2."""
    worth = {
        frozenset(s for s in range(4) if c >> s & 1): float(
            (7 if c & 1 else 0) + (3 if c & 2 else 0) + (1 if c & 4 else 0) - (2 if c & 8 else 0)
        )
        for c in range(16)
    }
    tree: Tree = ((0, 1), (2, 3))
    assert run(tree, 3, worth) == ([5.0, 5.0, -0.5, -0.5], 2)
    found, asked = run(tree, 7, worth)  # the larger half is divided, once without the other one ...
    assert (found, asked) == ([7.0, 3.0, -0.5, -0.5], 6)
    assert run(tree, 100, worth)[0] == [7.0, 3.0, 1.0, -2.0]


@pytest.mark.parametrize("samples", [10, 25, 64])
def test_samples_bound_the_forwards(samples: int) -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.rand(2**8, generator=generator).tolist()
    worth = {frozenset(s for s in range(8) if c >> s & 1): values[c] for c in range(2**8)}
    tree: Tree = (((0, 1), (2, 3)), ((4, 5), (6, 7)))
    scores, asked = run(tree, samples, worth)
    assert asked + 1 <= samples  # and one for the input without any feature
    total = worth[frozenset(range(8))] - worth[frozenset()]
    assert sum(scores) == pytest.approx(total)
    if samples == 64:
        assert scores == pytest.approx(owen(tree, worth))


def test_batches_give_what_singles_give() -> None:
    texts = [TEXT, "a bad film", "the plot is good. the film is not."]
    together = explain(texts, method="partition_shap", samples=20)
    for i, text in enumerate(texts):
        alone = explain(text, method="partition_shap", samples=20)
        torch.testing.assert_close(together[i].scores, alone.scores, rtol=0, atol=1e-10)


def test_too_few_samples() -> None:
    with pytest.raises(OptionError, match="samples=2 is too few"):
        explain(method="partition_shap", samples=2)
