"""Mixings: how much of each key token an attention layer mixes into each query token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.operations.fused_attention import Queries
from whyformer.engine.streamed_layers import AnyLayer, MixedLayer, StreamedLayer, map_rows
from whyformer.models.families import Pair


class Strip(NamedTuple):
    """Some rows of a mixing: which queries, which keys, and the values."""

    queries: Queries
    keys: slice
    matrix: Tensor  # (batch, query, key)


@dataclass(frozen=True)
class Mixing:
    """How much of each token of the key stack one layer mixes into the query stack's tokens.

    Attributes:
        layer: The attention layer; one that is mixed already was mixed by the same `mix`.
        parts: The maps of the layer that `mix` reads: "attention", "gradient", "relevance".
        mix: Combines rows of those maps into rows of the mixing, (batch, query, key).
    """

    layer: AnyLayer
    parts: Sequence[str]
    mix: Callable[..., Tensor]

    @property
    def asking(self) -> str:
        """The stack whose tokens are the queries."""
        return self.layer.asking

    @property
    def answering(self) -> str:
        """The stack whose tokens are the keys."""
        return self.layer.answering

    @property
    def together(self) -> bool:
        """Whether it read the same states as the mixing before it."""
        return self.layer.together

    @property
    def pair(self) -> Pair:
        """(query stack, key stack)."""
        return self.asking, self.answering

    @property
    def within(self) -> bool:
        """Whether it is self-attention."""
        return self.asking == self.answering

    def strips(self, queries: Tensor | None = None) -> Iterator[Strip]:
        """Yield its rows in strips: at least those of `queries`; all rows if None."""
        if isinstance(self.layer, MixedLayer):
            yield Strip(slice(None), slice(None), self.layer.matrix)
            return
        for some, keys, parts in map_rows(self.layer, self.parts, queries):
            yield Strip(some, keys, _without_denormals(self.mix(*parts)))

    @cached_property
    def matrix(self) -> Tensor:
        """The whole mixing, (batch, query tokens, key tokens)."""
        strips = self.strips()
        first = next(strips)
        if not isinstance(self.layer, StreamedLayer):
            return first.matrix
        call = self.layer.call
        shape = (self.layer.batch, call.query.shape[-2], call.key.shape[-2])
        whole = first.matrix.new_zeros(shape)
        for queries, keys, rows in chain((first,), strips):
            whole[:, queries, keys] = rows
        return whole


def mixings(
    layers: Sequence[AnyLayer], parts: Sequence[str], mix: Callable[..., Tensor]
) -> list[Mixing]:
    """Return one mixing per layer, in the order they ran."""
    return [Mixing(layer, parts, mix) for layer in layers]


def _without_denormals(matrix: Tensor) -> Tensor:
    """The matrix with denormal numbers set to 0: products with them are a hundred times slower."""
    return F.hardshrink(matrix, torch.finfo(matrix.dtype).tiny)


def head_mean(attention: Tensor) -> Tensor:
    """Return the mean over heads, (batch, query, key)."""
    return attention.mean(1)


def positive_gradient_mean(attention: Tensor, gradient: Tensor) -> Tensor:
    """Return attention x gradient, clamped and averaged over heads (ICCV 2021, eq. 5).

    Clamped before averaging: averaging first lets heads cancel.
    """
    return (attention * gradient).clamp_(min=0).mean(1)


def has_cross_attention(found: Sequence[Mixing]) -> bool:
    """Return whether any stack attends to another one."""
    return not all(mixing.within for mixing in found)


def moments(found: Iterable[Mixing]) -> Iterator[list[Mixing]]:
    """Yield lists of mixings in order; mixings that read the same states share a list."""
    together: list[Mixing] = []
    for mixing in found:
        if together and not mixing.together:
            yield together
            together = []
        together.append(mixing)
    if together:
        yield together
