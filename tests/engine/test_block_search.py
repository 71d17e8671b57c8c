"""The blocks of models that nobody declared: the list whose entries contain the attentions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import WIDTH, Attention, Block, Classifier, ShortConvolution, TokenWise
from whyformer.engine.block_search import search_blocks
from whyformer.engine.blocks import Chain
from whyformer.errors import ModelError, TrustWarning

IDS = torch.tensor([[3, 7, 1, 9, 4], [5, 2, 8, 6, 11]])


def chain_of(model: nn.Module) -> Chain:
    chain = search_blocks(model, {"ids": IDS}, len(IDS))
    assert chain is not None
    return chain


class Arranged(Classifier):
    """A classifier whose blocks are arranged by its sub-class, in `run`."""

    def __init__(self, *mixers: Callable[[], nn.Module]) -> None:
        super().__init__(*mixers)
        parts = list(self.blocks)
        del self.blocks
        self.arrange(parts)
        self.double().eval()

    def arrange(self, parts: list[nn.Module]) -> None:
        raise NotImplementedError

    def run(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.run(self.embedding(ids))[:, 0])


class Stages(Arranged):
    def arrange(self, parts: list[nn.Module]) -> None:
        self.stages = nn.ModuleList([nn.Sequential(*parts[:2]), nn.Sequential(*parts[2:])])

    def run(self, x: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x)
        return x


class ByName(Arranged):
    def arrange(self, parts: list[nn.Module]) -> None:
        self.named = nn.ModuleDict({f"block{i}": part for i, part in enumerate(parts)})

    def run(self, x: Tensor) -> Tensor:
        for part in self.named.values():
            x = part(x)
        return x


class Attributes(Arranged):
    def arrange(self, parts: list[nn.Module]) -> None:
        self.one, self.two, self.three, self.four = parts

    def run(self, x: Tensor) -> Tensor:
        return self.four(self.three(self.two(self.one(x))))


class ListsSideBySide(Arranged):
    """Attentions, norms and large feed-forward layers in a list each, as in XLM."""

    def arrange(self, parts: list[nn.Module]) -> None:
        self.attentions = nn.ModuleList([Attention() for _ in parts])
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in parts])
        self.feeds = nn.ModuleList([TokenWise() for _ in range(2 * len(parts))])

    def run(self, x: Tensor) -> Tensor:
        for i, attention in enumerate(self.attentions):
            x = self.norms[i](x + attention(x))
            x = x + self.feeds[2 * i + 1](self.feeds[2 * i](x))
        return x


class PreNormLists(ListsSideBySide):
    """The same, but an attention gets a normalised copy: the residual passes beside it."""

    def run(self, x: Tensor) -> Tensor:
        for i, attention in enumerate(self.attentions):
            x = x + attention(self.norms[i](x))
            x = x + self.feeds[2 * i + 1](self.feeds[2 * i](x))
        return x


class ListOfLists(Arranged):
    """Norm, attention and feed-forward layer of each block in a list, as in vit-pytorch."""

    def arrange(self, parts: list[nn.Module]) -> None:
        self.layers = nn.ModuleList(
            [nn.ModuleList([nn.LayerNorm(WIDTH), Attention(), TokenWise()]) for _ in parts]
        )

    def run(self, x: Tensor) -> Tensor:
        for norm, attention, feed in self.layers:  # type: ignore[misc]
            x = x + attention(norm(x))
            x = x + feed(x)
        return x


class TwoLists(Arranged):
    """A larger list of upper blocks after a smaller list of lower blocks."""

    def arrange(self, parts: list[nn.Module]) -> None:
        self.lower, self.upper = nn.ModuleList(parts[:1]), nn.ModuleList(parts[1:])

    def run(self, x: Tensor) -> Tensor:
        for part in (*self.lower, *self.upper):
            x = part(x)
        return x


class Pooled(Classifier):
    """An attention pooler with one query after the blocks."""

    def __init__(self, *mixers: Callable[[], nn.Module]) -> None:
        super().__init__(*mixers)
        self.probe = nn.Parameter(torch.randn(1, 1, WIDTH))
        self.pooler = nn.MultiheadAttention(WIDTH, 3, batch_first=True)
        self.double().eval()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        pooled, _ = self.pooler(self.probe.expand(len(x), -1, -1), x, x)
        return self.head(pooled[:, 0])


class Towers(Classifier):
    """Two towers of blocks on the same ids: each is a stream of its own."""

    def __init__(self) -> None:
        super().__init__(Attention, Attention)
        self.others = nn.ModuleList([Block(Attention()) for _ in range(3)])
        self.double().eval()

    def forward(self, ids: Tensor) -> Tensor:
        x, y = self.embedding(ids), self.embedding(ids.flip(1))
        for block in self.blocks:
            x = block(x)
        for block in self.others:
            y = block(y)
        return self.head(x[:, 0]) * self.head(y[:, 0])


FOUR = (Attention,) * 4
CASES: list[tuple[nn.Module, tuple[str, ...], bool]] = [
    (Classifier(Attention, Attention), ("blocks.0", "blocks.1"), True),
    (Classifier(ShortConvolution, Attention), ("blocks.0", "blocks.1"), True),
    (Classifier(ShortConvolution, ShortConvolution), ("blocks.0", "blocks.1"), True),
    (Stages(*FOUR), ("stages.0", "stages.1"), True),
    (ByName(*FOUR), tuple(f"named.block{i}" for i in range(4)), True),
    (Attributes(*FOUR), ("one", "two", "three", "four"), True),
    (ListsSideBySide(*FOUR), tuple(f"attentions.{i}" for i in range(4)), False),
    (PreNormLists(*FOUR), tuple(f"norms.{i}" for i in range(4)), False),
    (ListOfLists(*FOUR), tuple(f"layers.{i}.0" for i in range(4)), False),
    (TwoLists(*FOUR), ("lower.0", "upper.0", "upper.1", "upper.2"), True),
]


@pytest.mark.parametrize(("model", "blocks", "whole"), CASES)
def test_the_blocks_contain_the_attentions(
    model: nn.Module, blocks: tuple[str, ...], whole: bool
) -> None:
    found = chain_of(model)
    assert (found.blocks, found.whole) == (blocks, whole)


@pytest.mark.parametrize("model", [case[0] for case in CASES])
def test_they_conserve_and_chain(model: nn.Module) -> None:
    """Relevance is that of the embeddings, and all maps chain."""
    a = wf.explain(IDS, model, method="libragrad", target=1)
    torch.testing.assert_close(
        a.conservation, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-8
    )
    gradient = wf.explain(IDS, model, method="gradient_x_input", target=1)
    embedded = model.embedding(IDS).detach().requires_grad_()
    handle = model.embedding.register_forward_hook(lambda *_: embedded)
    model(IDS)[:, 1].sum().backward()
    handle.remove()
    expected = (embedded * embedded.grad).sum(-1).detach()
    torch.testing.assert_close(gradient.scores, expected, rtol=1e-9, atol=1e-12)
    maps = sum(isinstance(part, Attention) for part in model.modules())
    if maps:
        unseen = any(isinstance(part, ShortConvolution) for part in model.modules())
        doubt = "layer 0 of 2 mixes tokens without softmax attention"
        with pytest.warns(TrustWarning, match=doubt) if unseen else nullcontext():
            kept = wf.explain(IDS, model, method="gae", target=1, keep=("attention",))
        assert len(kept.layers) == maps


def test_a_pooler_after_the_blocks_is_no_block() -> None:
    model = Pooled(Attention, Attention)
    assert chain_of(model).blocks == ("blocks.0", "blocks.1")
    assert chain_of(model).outside == ("pooler",)
    a = wf.explain(IDS, model, method="libragrad", target=1)
    torch.testing.assert_close(a.conservation, torch.ones(2, dtype=torch.float64))
    with pytest.raises(ModelError, match="attention runs after the last block"):
        wf.explain(IDS, model, method="gae", target=1)


@pytest.mark.parametrize("method", ["libragrad", "gae", "gradient_x_input"])
def test_two_towers_are_refused_by_name(method: str) -> None:
    with pytest.raises(ModelError, match=r"several token streams.*others\.0\.mixer"):
        wf.explain(IDS, Towers(), method=method, target=1)


def test_the_search_runs_once_for_a_model(monkeypatch: pytest.MonkeyPatch) -> None:
    from whyformer.engine import block_search

    runs: list[Any] = []
    dry_run = block_search.dry_run
    monkeypatch.setattr(block_search, "dry_run", lambda *a, **k: runs.append(a) or dry_run(*a, **k))
    model = Classifier(Attention, Attention)
    for _ in range(3):
        wf.explain(IDS, model, method="gradient_x_input", target=1)
    assert len(runs) == 1
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
