"""Layers whose attention maps are never held: computed again, a block of queries at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from whyformer.attribution import Layer
from whyformer.engine.rules.operations.fused_attention import FusedCall, Queries, blocks
from whyformer.engine.rules.operations.stabilise import ratio, wide
from whyformer.engine.rules.relevance import shares


class Rows(NamedTuple):
    """Some queries' rows of a layer's maps, and the keys that they are about."""

    queries: Queries
    keys: slice
    parts: tuple[Tensor, ...]  # (batch, head, query, key) each, in the order asked for


@dataclass(frozen=True)
class Recomputed:
    """A layer by what its maps are made of; as a `Layer` it has kept nothing of them."""

    batch: int
    call: FusedCall
    output: Tensor  # what the attention returned
    gradient_there: Tensor | None = None  # at that output
    relevance_there: Tensor | None = None
    relevance_sum: Tensor | None = None
    asking: str = ""
    answering: str = ""
    together: bool = False

    def rows(self, parts: Sequence[str], wanted: Tensor | None) -> Iterator[Rows]:
        """All rows, or those of the wanted queries."""
        share = None
        if self.relevance_there is not None:
            share = ratio(self.relevance_there, self.output, shares.EPSILON)
        for block in blocks(self.call, wanted):
            made = {"attention": block.attention}
            across = block.value.transpose(-2, -1)
            if "gradient" in parts and self.gradient_there is not None:
                made["gradient"] = self.gradient_there[..., block.queries, :] @ across
            if "relevance" in parts and share is not None:
                there = share[..., block.queries, :] @ across
                made["relevance"] = there.mul_(block.attention).div_(2)
            yield Rows(block.queries, block.keys, tuple(self._by_head(made[p]) for p in parts))

    def pooled_gradient(self, asking: Tensor, answering: Tensor) -> Tensor:
        """The map's gradient, weighted sum over queries and keys, (batch, head).

        It is a product of what came back and the values, so each can be summed by itself.
        """
        assert self.gradient_there is not None
        shape = (self.batch, -1, *self.output.shape[-2:])
        queries = torch.einsum("bhqd,bq->bhd", self.gradient_there.reshape(shape), asking)
        value = self.call.value.expand(*self.output.shape[:-2], -1, -1)
        value = value.reshape(self.batch, -1, *value.shape[-2:])
        return torch.einsum("bhd,bhkd,bk->bh", queries, value, answering)

    def _by_head(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.batch, -1, *rows.shape[-2:])


AnyLayer = Layer | Recomputed
_ALL = slice(None)


def rows_of(layer: AnyLayer, parts: Sequence[str], wanted: Tensor | None = None) -> Iterator[Rows]:
    """A layer's rows in blocks: those of the wanted queries at the least."""
    if isinstance(layer, Recomputed):
        yield from layer.rows(parts, wanted)
    else:
        yield Rows(_ALL, _ALL, layer.read(*parts))


def pooled_gradient(layer: AnyLayer, asking: Tensor, answering: Tensor) -> Tensor:
    """The attention gradient of each head, weighted over queries and keys, (batch, head)."""
    if isinstance(layer, Recomputed):
        return layer.pooled_gradient(asking, answering)
    (gradient,) = layer.read("gradient")
    return torch.einsum("bhqk,bq,bk->bh", gradient, asking, answering)


def dtype_of(layer: AnyLayer) -> torch.dtype:
    """What its maps are computed in."""
    if isinstance(layer, Recomputed):
        return layer.call.query.dtype
    (attention,) = layer.read("attention")
    return wide(attention).dtype
