"""Slow twins of the relevance rules, and a pass that compares value and gradient with torch's.

Each twin lists the contributions to an output and shares its relevance among them. test_shares.py
checks the formulas; the tests that import this module check that every spelling of an operation
gets the right formula in a real interception.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from whyformer.engine.interception import Interception
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import FusedCall
from whyformer.engine.rules.relevance.switch import Direction, run_without_rule
from whyformer.engine.rules.relevance.table import relevance_table

Random = Callable[..., Tensor]
SCALE = 1 / math.sqrt(4)


def hold_nothing(call: FusedCall, run: Callable[[FusedCall], Tensor]) -> None:
    """Keep no attention fused, so that all maps are recorded."""


class Sent(NamedTuple):
    relevance: tuple[Tensor, ...]  # of each input
    maps: list[Tensor]  # attention maps seen on the way


def send_back(
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    relevance: Tensor,
    rules: str = "ours",
    batch_first: bool = True,
) -> Sent:
    """The relevance of each input; value and gradient are compared with a plain run."""
    batch = inputs[0].shape[0 if batch_first else 1]
    direction = Direction()
    maps: list[Tensor] = []

    def keep_map(attention: Tensor) -> Tensor:
        maps.append(attention)
        return attention

    table = relevance_table(direction, rules, keep_map, hold_nothing)
    leaves = tuple(tags.add_tag(x.clone().requires_grad_(), tags.LEAF) for x in inputs)
    ledger = Ledger(batch, batch_first, active=False)
    with Interception(table, ledger, double=True, fallback=partial(run_without_rule, direction)):
        output = function(*(leaf.clone() for leaf in leaves))  # it may write into its inputs
    grad = partial(torch.autograd.grad, allow_unused=True, materialize_grads=True)

    plain = tuple(x.clone().requires_grad_() for x in inputs)
    expected = function(*(x.clone() for x in plain))
    torch.testing.assert_close(output, expected, rtol=1e-12, atol=1e-12)
    for ours, theirs in zip(
        grad(output, leaves, relevance, retain_graph=True),
        grad(expected, plain, relevance),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    direction.relevance = True
    return Sent(grad(output, leaves, relevance), maps)


def close(found: Tensor, expected: Tensor) -> None:
    """Compare up to the effect of the stabiliser, which the twins do not have."""
    largest = float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-5 * max(largest, 1e-3))


def weights(random: Random, *shapes: tuple[int, ...]) -> list[nn.Parameter]:
    return [nn.Parameter(random(*shape)) for shape in shapes]


def among(contributions: Tensor, relevance: Tensor) -> Tensor:
    """Relevance (..., output) shared among contributions (..., output, input), (..., input)."""
    total = contributions.sum(-1)
    share = torch.where(total == 0, 0, relevance / total.masked_fill(total == 0, 1))
    return (contributions * share.unsqueeze(-1)).sum(-2)


def linear(x: Tensor, w: Tensor, relevance: Tensor, rules: str = "ours") -> Tensor:
    """The inputs' relevance for y = x w^T + anything."""
    contributions = x.unsqueeze(-2) * w
    if rules == "ours":
        return among(contributions.clamp(min=0), relevance)
    positive = (x > 0).unsqueeze(-2)
    halves = contributions.clamp(min=0) * positive, contributions.clamp(min=0) * ~positive
    return sum(among(half, relevance) for half in halves)  # type: ignore[return-value]


def linear_map(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The matrix (output, input) of a linear function of one sample."""
    zero = torch.zeros_like(x)
    jacobian = torch.autograd.functional.jacobian(function, zero)
    return jacobian.reshape(-1, x.numel())


def matmul(left: Tensor, right: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
    contributions = left.unsqueeze(-2) * right.transpose(-2, -1).unsqueeze(-3)  # (..., i, j, k)
    total = contributions.sum(-1)
    share = torch.where(total == 0, 0, relevance / total.masked_fill(total == 0, 1))
    parts = contributions * share.unsqueeze(-1) / 2
    return parts.sum(-2), parts.sum(-3).transpose(-2, -1)


def add(left: Tensor, right: Tensor, relevance: Tensor, rules: str = "ours") -> tuple[Tensor, ...]:
    parts = [relevance * x / (left + right) for x in (left, right)]
    if rules == "orig":
        return tuple(parts)
    sums = [part.flatten(1).sum(1) for part in parts]
    size = sums[0].abs() + sums[1].abs()
    whole = relevance.flatten(1).sum(1)
    shape = (-1, *[1] * (left.dim() - 1))
    return tuple(
        part * (total.abs() / size * whole / total).nan_to_num(0).reshape(shape)
        for part, total in zip(parts, sums, strict=True)
    )


def attention(
    q: Tensor, k: Tensor, v: Tensor, relevance: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Relevance of queries, keys and values, (batch, head, token, width) each."""
    scores = q @ k.transpose(-2, -1)
    if mask is not None and mask.dtype != torch.bool:
        weighted = torch.softmax(scores * SCALE + mask, -1)
    else:
        hidden = scores * SCALE if mask is None else (scores * SCALE).masked_fill(~mask, -torch.inf)
        weighted = torch.softmax(hidden, -1)
    to_weights, to_values = matmul(weighted, v, relevance)
    if mask is not None and mask.dtype != torch.bool:
        finite = mask.clamp(min=torch.finfo(mask.dtype).min).expand_as(scores)
        to_weights = add(scores * SCALE, finite, to_weights)[0]
    to_queries, to_keys = matmul(q, k.transpose(-2, -1), to_weights)
    return to_queries, to_keys.transpose(-2, -1), to_values
