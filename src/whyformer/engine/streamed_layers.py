"""Attention layers whose maps are not held.

Rows are computed again, a few queries at a time; or the method made a mixing of the maps at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from whyformer.attribution import Layer
from whyformer.engine.rules.operations.fused_attention import FusedCall, Queries, blocks
from whyformer.engine.rules.operations.stabilise import ratio, wide
from whyformer.engine.rules.relevance import shares
from whyformer.errors import ModelError


class MapRows(NamedTuple):
    """Rows of a layer's maps: which queries, which keys, and the values."""

    queries: Queries
    keys: slice
    parts: tuple[
        Tensor, ...
    ]  # (batch, head, query, key) each, in the order of the `parts` argument


@dataclass(frozen=True)
class StreamedLayer:
    """An attention layer, kept as the inputs and the output of its fused attention.

    Queries, keys, values and the output are linear in tokens; the map is a product of them.
    """

    batch: int  # samples
    call: FusedCall
    output: Tensor  # of the attention
    output_gradient: Tensor | None = None
    output_relevance: Tensor | None = None
    relevance_sum: Tensor | None = None
    asking: str = ""
    answering: str = ""
    together: bool = False

    def rows(self, parts: Sequence[str], queries: Tensor | None) -> Iterator[MapRows]:
        """Yield the rows of some queries in blocks; of all queries if None."""
        share = None
        if self.output_relevance is not None:
            share = ratio(self.output_relevance, self.output, shares.EPSILON)
        for block in blocks(self.call, queries):
            rows = {"attention": block.attention}
            values = block.value.transpose(-2, -1)
            if "gradient" in parts and self.output_gradient is not None:
                rows["gradient"] = self.output_gradient[..., block.queries, :] @ values
            if "relevance" in parts and share is not None:
                relevance = share[..., block.queries, :] @ values
                rows["relevance"] = relevance.mul_(block.attention).div_(2)
            by_head = tuple(self._split_heads(rows[part]) for part in parts)
            yield MapRows(block.queries, block.keys, by_head)

    def pooled_gradient(self, asking: Tensor, answering: Tensor) -> Tensor:
        """Return the map's gradient, a weighted sum over queries and keys, (batch, head).

        The gradient is a product of the output's gradient and the values, so each is summed alone.
        """
        assert self.output_gradient is not None
        shape = (self.batch, -1, *self.output.shape[-2:])
        queries = torch.einsum("bhqd,bq->bhd", self.output_gradient.reshape(shape), asking)
        value = self.call.value.expand(*self.output.shape[:-2], -1, -1)
        value = value.reshape(self.batch, -1, *value.shape[-2:])
        return torch.einsum("bhd,bhkd,bk->bh", queries, value, answering)

    def _split_heads(self, rows: Tensor) -> Tensor:
        return rows.reshape(self.batch, -1, *rows.shape[-2:])


@dataclass(frozen=True)
class MixedLayer:
    """An attention layer whose maps are gone: the method mixed them as soon as they were there."""

    matrix: Tensor  # (batch, query, key)
    relevance_sum: Tensor | None = None
    asking: str = ""
    answering: str = ""
    together: bool = False


AnyLayer = Layer | StreamedLayer | MixedLayer
# The mixing (batch, query, key) that a method reads of a layer, from its attention and gradient.
Mix = Callable[[Layer | StreamedLayer], Tensor]
_ALL = slice(None)


def holds_samples(attention: Tensor, batch: int) -> bool:
    """Return whether the axes before (query, key) can be split into samples and heads."""
    before = attention.shape[:-2]
    return before.numel() % batch == 0 and (len(before) < 2 or before[0] % batch == 0)


def split_heads(attention: Tensor, batch: int) -> Tensor:
    """Return attention as (batch, head, query, key), whatever axes the model folded together."""
    if not holds_samples(attention, batch):
        raise ModelError(
            f"an attention map of shape {tuple(attention.shape)} does not hold the {batch} samples"
            " of the batch",
            argument="inputs",
            remedy="Explain one sample at a time",
        )
    return attention.reshape(batch, -1, *attention.shape[-2:])


def map_rows(
    layer: AnyLayer, parts: Sequence[str], queries: Tensor | None = None
) -> Iterator[MapRows]:
    """Yield a layer's rows in blocks: at least those of `queries`; all rows if None."""
    assert not isinstance(layer, MixedLayer)
    if isinstance(layer, StreamedLayer):
        yield from layer.rows(parts, queries)
    else:
        yield MapRows(_ALL, _ALL, layer.read(*parts))


def pooled_gradient(layer: AnyLayer, asking: Tensor, answering: Tensor) -> Tensor:
    """Return each head's attention gradient, weighted over queries and keys, (batch, head)."""
    if isinstance(layer, StreamedLayer):
        return layer.pooled_gradient(asking, answering)
    assert not isinstance(layer, MixedLayer)
    (gradient,) = layer.read("gradient")
    return torch.einsum("bhqk,bq,bk->bh", gradient, asking, answering)


def map_dtype(layer: AnyLayer) -> torch.dtype:
    """Return the dtype that the layer's maps are computed in."""
    if isinstance(layer, StreamedLayer):
        return layer.call.query.dtype
    if isinstance(layer, MixedLayer):
        return layer.matrix.dtype
    (attention,) = layer.read("attention")
    return wide(attention).dtype
