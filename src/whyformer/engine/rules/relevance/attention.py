"""Relevance rule of fused attention, unfused or in blocks of queries."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.attention_maps import unfused_attention
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations.fused_attention import FusedCall, blocks, reached_queries
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.rules.relevance import contractions, shares
from whyformer.engine.rules.relevance.context import RuleContext
from whyformer.engine.rules.relevance.elementwise import add
from whyformer.engine.rules.relevance.rounding import RoundingError
from whyformer.engine.rules.relevance.switch import pass_unchanged, use_formula


def fused_attention(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Tensor:
    """Attention that stays fused if `context.hold` keeps it, otherwise with a recorded map."""
    direction = context.direction

    def keep_fused(call: FusedCall) -> Tensor:
        inputs = (call.query, call.key, call.value)
        formula = partial(input_relevances, call, direction.rounding)
        return use_formula(direction, formula, function(**call._asdict()), inputs)

    def pass_from(output: Tensor, x: Tensor) -> Tensor:
        return pass_unchanged(direction, output, x) if is_tracked(x) else output

    call = FusedCall(*args, **kwargs)
    output = context.hold(call, keep_fused)
    if output is not None:
        return output
    return unfused_attention(
        call,
        context.record,
        multiply=partial(contractions.matmul, direction),
        scale=lambda x, by: pass_from(x * by, x),
        add=lambda scores, mask: add(context, ledger, torch.add, (scores, mask), {}),
        softmax=lambda x: pass_from(torch.softmax(x, -1), x),
    )


def input_relevances(
    call: FusedCall,
    rounding: RoundingError,
    relevance: Tensor,
    inputs: Sequence[Tensor],
    output: Tensor,
) -> list[Tensor]:
    """The relevance of query, key and value: half to the values, a quarter each to the others.

    This is the rule for products, applied twice; the softmax passes relevance unchanged.
    """
    query, key, value = inputs
    call = call._replace(query=query, key=key, value=value)
    rounding.note(relevance, output, value.abs().amax(-2, keepdim=True))  # attention sums to 1
    share = ratio(relevance, output, shares.EPSILON)
    parts: Any = [torch.zeros_like(x) for x in inputs]
    for block in blocks(call, reached_queries(relevance)):
        rows = share[..., block.queries, :]
        to_map = block.attention * (rows @ block.value.transpose(-2, -1)) / 2
        lengths = block.query.norm(dim=-1, keepdim=True), block.key.norm(dim=-1).unsqueeze(-2)
        rounding.note(to_map, block.scores, lengths[0] * lengths[1])
        back = ratio(to_map, block.scores, shares.EPSILON)
        parts[0][..., block.queries, :] = block.query * (back @ block.key) / 2
        parts[1][..., block.keys, :] += block.key * (back.transpose(-2, -1) @ block.query) / 2
        mixed = block.attention.transpose(-2, -1) @ rows
        parts[2][..., block.keys, :] += block.value * mixed / 2
    return list(parts)
