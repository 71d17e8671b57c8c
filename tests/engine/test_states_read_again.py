"""Models that read the token states again above the first block, or those between the blocks."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import WIDTH, Attention, Block, Classifier

IDS = {"ids": torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 3]])}


class Reminded(Block):
    """A block that also reads the embeddings, as in Zamba."""

    def __init__(self) -> None:
        super().__init__(Attention())
        self.join = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor, embedded: Tensor) -> Tensor:
        return super().forward(x + self.join(torch.cat([x, embedded], -1)))


class CopiesEmbeddings(Classifier):
    """Each block gets a copy of the embeddings, made before the first block."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Reminded() for _ in range(3)]).double()

    def forward(self, ids: Tensor) -> Tensor:
        return self.run(self.embedding(ids))

    def run(self, x: Tensor) -> Tensor:
        embedded = torch.clone(x)
        for block in self.blocks:
            x = block(x, embedded)
        return self.head(x[:, 0])


class Tapped(Classifier):
    """The head reads the output of every block, as in DPT."""

    def forward(self, ids: Tensor) -> Tensor:
        x, seen = self.embedding(ids), []
        for block in self.blocks:
            x = block(x)
            seen.append(x[:, 0])
        return self.head(torch.stack(seen).sum(0))


def explain(model: nn.Module, method: str, **options: Any) -> wf.Attribution:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return wf.explain(IDS, model, method=method, target=1, blocks="blocks", **options)


def test_a_copy_of_the_states_counts_as_the_states() -> None:
    model = CopiesEmbeddings()
    states = model.embedding(IDS["ids"]).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(model.run(states)[:, 1].sum(), states)
    expected = (states * gradient).sum(-1).detach()
    torch.testing.assert_close(explain(model, "gradient_x_input").scores, expected)


def test_integrated_gradients_move_the_copy_too() -> None:
    found = explain(CopiesEmbeddings(), "integrated_gradients", steps=200)
    assert found.conservation is not None
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), rtol=0, atol=0.05)


@pytest.mark.parametrize(
    ("model", "whole"), [(CopiesEmbeddings(), 1), (Tapped(Attention, Attention, Attention), 2)]
)
def test_blocks_that_relevance_passes_beside_are_not_averaged(model: nn.Module, whole: int) -> None:
    """The head reads the output of the first block, which is the input of the second."""
    found = explain(model, "libragrad")
    assert found.conservation is not None
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), rtol=0, atol=1e-8)
    torch.testing.assert_close(found.scores, explain(model, "libragrad", end_layer=whole).scores)


def test_all_other_blocks_are_averaged() -> None:
    model = Classifier(Attention, Attention, Attention)
    found, first = explain(model, "libragrad"), explain(model, "libragrad", end_layer=1)
    assert not torch.allclose(found.scores, first.scores)
