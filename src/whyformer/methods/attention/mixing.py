"""Mixings: what each layer mixes into whose tokens, and walks down a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.attribution import Layer
from whyformer.engine.capture import Capture, Scores
from whyformer.engine.rules.operations.fused_attention import Queries
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.streamed_layers import AnyLayer, rows_of
from whyformer.models.families import Pair


class Strip(NamedTuple):
    """Some rows of a mixing, and the columns that they are about."""

    queries: Queries
    keys: slice
    matrix: Tensor  # (batch, query, key)


@dataclass(frozen=True)
class Mixing:
    """One layer's mixing of the answering stack's tokens into the asking one's."""

    layer: AnyLayer
    parts: Sequence[str]
    mix: Callable[..., Tensor]  # of the parts that it reads, some queries' rows at a time

    @property
    def asking(self) -> str:
        """Whose tokens ask."""
        return self.layer.asking

    @property
    def answering(self) -> str:
        """Whose tokens answer."""
        return self.layer.answering

    @property
    def together(self) -> bool:
        """Whether it saw the same states as the one before."""
        return self.layer.together

    @property
    def pair(self) -> Pair:
        """Whose tokens ask, whose answer."""
        return self.asking, self.answering

    @property
    def within(self) -> bool:
        """Whether it is self-attention."""
        return self.asking == self.answering

    def strips(self, wanted: Tensor | None = None) -> Iterator[Strip]:
        """Its rows in strips: those of the wanted queries at the least."""
        for queries, keys, parts in rows_of(self.layer, self.parts, wanted):
            yield Strip(queries, keys, _normal(self.mix(*parts)))

    @cached_property
    def matrix(self) -> Tensor:
        """All of it, (batch, asking tokens, answering tokens)."""
        strips = self.strips()
        first = next(strips)
        if isinstance(self.layer, Layer):
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
    """One mixing per layer, in the order they ran; `mix` makes its rows of the parts it reads."""
    return [Mixing(layer, parts, mix) for layer in layers]


def _normal(matrix: Tensor) -> Tensor:
    """The matrix without its denormal numbers: products with them take a hundred times as long."""
    return F.hardshrink(matrix, torch.finfo(matrix.dtype).tiny)


def averaged(attention: Tensor) -> Tensor:
    """The mean over heads, (batch, query, key)."""
    return attention.mean(1)


def wanted(attention: Tensor, gradient: Tensor) -> Tensor:
    """What the heads mix and the target wants, (batch, query, key): eq. 5 of ICCV 2021.

    Clamped before averaging: averaging first lets heads cancel.
    """
    return (attention * gradient).clamp_(min=0).mean(1)


def meet(found: Sequence[Mixing]) -> bool:
    """Whether any stack asks another one."""
    return not all(mixing.within for mixing in found)


def moments(found: Iterable[Mixing]) -> Iterator[list[Mixing]]:
    """The mixings in order, those that saw the same states in one list."""
    together: list[Mixing] = []
    for mixing in found:
        if together and not mixing.together:
            yield together
            together = []
        together.append(mixing)
    if together:
        yield together


def walk(
    capture: Capture,
    found: Sequence[Mixing],
    reduce: str,
    *,
    residual: bool = True,
    normalize: bool = False,
) -> Scores:
    """Scores of walks down stacks that never meet, each from its deciding token."""
    scores = {}
    for stack in capture.deciding:
        own = (mixing for mixing in reversed(found) if mixing.asking == stack)
        rows = walk_down(capture.rows(stack, reduce), own, residual=residual, normalize=normalize)
        scores[stack] = capture.read_out(stack, rows, reduce)
    return scores


def walk_down(
    rows: Tensor, found: Iterable[Mixing], *, residual: bool = True, normalize: bool = False
) -> Tensor:
    """rows @ M_last @ ... @ M_first with M = mixing + identity, (batch, rows, tokens).

    Row by row from the top is the same product as the papers', at the cost of a vector times a
    matrix per layer, and no layer has to be whole. `normalize` makes each row of M add up to 1.
    """
    for mixing in found:
        wanted = rows.flatten(0, 1).any(0).nonzero().flatten()
        below = torch.zeros_like(rows)
        for queries, keys, strip in mixing.strips(wanted):
            weights = rows[..., queries]
            if normalize:
                sums = strip.sum(-1) + 1 if residual else strip.sum(-1)
                weights = ratio(weights, sums.unsqueeze(1))
            below[..., keys] += weights @ strip
            if residual:
                below[..., queries] += weights
        rows = below
    return rows


def stepped(mixing: Tensor, residual: bool = True, normalize: bool = False) -> Tensor:
    """One layer's step, mixing + identity, each row adding up to 1 if so asked."""
    if residual:
        mixing = mixing + torch.eye(mixing.shape[-1], dtype=mixing.dtype, device=mixing.device)
    return ratio(mixing, mixing.sum(-1, keepdim=True)) if normalize else mixing
