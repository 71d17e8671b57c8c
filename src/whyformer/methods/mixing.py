"""Mixings: what each layer mixes into whose tokens, and walks down a stack of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.attribution import Layer
from whyformer.capture.capture import Capture, Scores
from whyformer.families import Pair
from whyformer.rules.stabilise import ratio


@dataclass(frozen=True)
class Mixing:
    """One layer's mixing of the answering stack's tokens into the asking one's."""

    asking: str
    answering: str
    matrix: Tensor  # (batch, asking tokens, answering tokens)
    together: bool = False  # with the one before: both saw the same states

    @property
    def pair(self) -> Pair:
        """Whose tokens ask, whose answer."""
        return self.asking, self.answering

    @property
    def within(self) -> bool:
        """Whether it is self-attention."""
        return self.asking == self.answering


def mixings(
    layers: Sequence[Layer], parts: Sequence[str], mix: Callable[..., Tensor]
) -> list[Mixing]:
    """One mixing per layer, in the order they ran; `mix` makes it of the parts it reads."""
    return [
        Mixing(layer.asking, layer.answering, _normal(mix(*layer.read(*parts))), layer.together)
        for layer in layers
    ]


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
        own = (mixing.matrix for mixing in reversed(found) if mixing.asking == stack)
        rows = walk_down(capture.rows(stack, reduce), own, residual=residual, normalize=normalize)
        scores[stack] = capture.read_out(stack, rows, reduce)
    return scores


def walk_down(
    rows: Tensor, matrices: Iterable[Tensor], *, residual: bool = True, normalize: bool = False
) -> Tensor:
    """rows @ M_last @ ... @ M_first with M = mixing + identity, (batch, rows, tokens).

    Row by row from the top is the same product as the papers', at the cost of a vector times a
    matrix per layer. `normalize` makes each row of M add up to 1.
    """
    for mixing in matrices:
        rows = rows.to(mixing.dtype)
        if residual and not normalize:
            rows = rows + rows @ mixing
            continue
        rows = rows @ stepped(mixing, residual, normalize)
    return rows


def stepped(mixing: Tensor, residual: bool = True, normalize: bool = False) -> Tensor:
    """One layer's step, mixing + identity, each row adding up to 1 if so asked."""
    if residual:
        mixing = mixing + torch.eye(mixing.shape[-1], dtype=mixing.dtype, device=mixing.device)
    return ratio(mixing, mixing.sum(-1, keepdim=True)) if normalize else mixing
