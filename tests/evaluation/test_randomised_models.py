"""Models with shuffled weights: the same numbers in another order, from the top down."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from whyformer.engine.stacks import find_stacks
from whyformer.evaluation.fingerprint import of_model
from whyformer.evaluation.randomised_models import LEVELS, randomise_weights
from whyformer.models.families import family_of
from whyformer.models.families.tiny import tiny_models


def changed(before: nn.Module, after: nn.Module) -> set[str]:
    """The names of the weights that differ; a bias of three may be shuffled into the same order."""
    weights = dict(after.named_parameters())
    large = {n: p for n, p in before.named_parameters() if p.numel() > 8}
    return {n for n, p in large.items() if not torch.equal(p, weights[n])}


def stream_of(module: nn.Module) -> str:
    family = family_of(module)
    assert family is not None
    return family.stream


@pytest.mark.parametrize("name", ["bert", "vit", "gpt2", "lxmert", "visual_bert", "t5", "clip"])
def test_from_the_top_down(name: str) -> None:
    module = tiny_models()[name][1]()
    before = of_model(module)
    copies = randomise_weights(module, stream_of(module), 0)
    assert of_model(module) == before
    assert len(copies) == LEVELS
    steps = [changed(module, copy) for copy in copies]
    assert steps[0]
    for few, more in pairwise(steps):
        assert few <= more
    blocks = {
        id(p)
        for track in find_stacks(module, stream_of(module), family_of(module)).tracks.values()
        for block in track.chain
        for p in block.parameters()
    }
    large = {n for n, p in module.named_parameters() if id(p) in blocks and p.numel() > 8}
    assert large <= steps[-1]  # every block changed
    assert large - steps[0]  # in the first copy only some


def test_every_weight_keeps_its_values() -> None:
    module = tiny_models()["bert"][1]()
    for copy in randomise_weights(module, "text", 0):
        after = dict(copy.named_parameters())
        for name, parameter in module.named_parameters():
            assert torch.equal(_sorted(parameter), _sorted(after[name]))


def test_embeddings_stay_and_the_head_goes_first() -> None:
    module = tiny_models()["bert"][1]()
    copies = randomise_weights(module, "text", 0)
    for copy in copies:
        assert not any("embeddings" in name for name in changed(module, copy))
    first = changed(module, copies[0])
    assert {"classifier.weight", "bert.pooler.dense.weight"} <= first
    assert not any("layer.0." in name for name in first)


def test_lots_are_drawn_by_the_seed() -> None:
    module = tiny_models()["bert"][1]()
    state = torch.random.get_rng_state()
    once, again = randomise_weights(module, "text", 3), randomise_weights(module, "text", 3)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [of_model(m) for m in once] == [of_model(m) for m in again]
    assert of_model(randomise_weights(module, "text", 4)[0]) != of_model(once[0])


def test_the_copies_run() -> None:
    module = tiny_models()["bert"][1]().double()
    ids = torch.tensor([[5, 6, 7]])
    answers = [copy(ids).logits for copy in randomise_weights(module, "text", 0)]
    assert all(answer.isfinite().all() for answer in answers)
    assert not torch.allclose(answers[0], answers[-1])


def _sorted(parameter: Tensor) -> Tensor:
    return parameter.detach().flatten().sort().values
