"""Attention, fused or spelled out: detached weights (AH), shared products, recorded maps.

The AH rule (Ali et al. 2022, eq. 9) treats the attention weights as constants. In fused attention
that means q, k and the additive mask (T5 carries its position bias there); spelled out, it means
the softmax at the moment it multiplies the values, so that other softmaxes stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.detach.product import share, uniform
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.fused_attention import (
    FusedCall,
    attention_weights,
    blocks,
    is_small,
    reached_queries,
    repeat_shared_keys,
)
from whyformer.engine.rules.operations.names import MATMUL, SOFTMAX, Function

Record = Callable[[Tensor], Tensor]


# hold(call, run): what `run` returns for the call, noted; None where maps are to be recorded.
Hold = Callable[[FusedCall, Callable[[FusedCall], Tensor]], Tensor | None]


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


# -- the AH rule --------------------------------------------------------------------------------


def detach_in_fused(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """Fused attention in which only the values carry relevance."""
    ledger.count("attention")
    call = FusedCall(*args, **kwargs)
    call = call._replace(
        query=call.query.detach(), key=call.key.detach(), attn_mask=_detach(call.attn_mask)
    )
    if call.dropout_p or not is_tracked(call.value):
        return function(**call._asdict())
    return _ValuesOnly.apply(call.value, function, call)


class _ValuesOnly(AutogradFunction):
    """Fused attention whose backward has the values to serve and nothing else.

    The fused kernels' own backward works out the queries' and keys' gradients as well. Here the
    weights are kept where they are few; else they are computed again, a block of queries at a
    time, so that memory stays linear.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, function: Function, call: FusedCall) -> Tensor:
        call = call._replace(value=value.detach())
        ctx.shape, ctx.weights = value.shape, None
        if is_small(call):
            ctx.weights, values = attention_weights(call)
            return ctx.weights @ values
        ctx.call = call
        return function(**call._asdict())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        if ctx.weights is not None:
            total = ctx.weights.transpose(-2, -1) @ gradient
        else:
            total = _by_blocks(ctx.call, gradient)
        if total.shape[-3] != ctx.shape[-3]:  # heads that share their values
            total = total.unflatten(-3, (ctx.shape[-3], -1)).sum(-3)
        return total.sum_to_size(ctx.shape), None, None


def _by_blocks(call: FusedCall, gradient: Tensor) -> Tensor:
    """The values' gradient, each head's own."""
    total = gradient.new_zeros(*gradient.shape[:-2], call.key.shape[-2], gradient.shape[-1])
    for block in blocks(repeat_shared_keys(call), reached_queries(gradient)):
        back = block.attention.transpose(-2, -1) @ gradient[..., block.queries, :]
        total[..., block.keys, :] += back
    return total


def tag_softmax(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """softmax(x), marked as a possible attention map; used otherwise, it loses relevance."""
    (x,) = ledger.alias(args[:1])
    output = function(x, *args[1:], **kwargs)
    ledger.book_difference("softmax", (x,), output, leak=True, batch_first=True)
    return tags.add_tag(output, tags.ATTENTION)


def detach_in_matmul(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """attention @ values with the attention detached; any other product in halves to its factors.

    By gradient each of two factors would get the whole: a similarity of two towers, twice its
    value. Only where a sum is promised, for the gradient itself knows no halves.
    """
    if tags.has_tag(args[0], tags.ATTENTION):
        ledger.count("attention")
        return function(args[0].detach(), *args[1:], **kwargs)
    if len(args) < 2 or not (ledger.active and is_tracked(args[0]) and is_tracked(args[1])):
        return function(*args, **kwargs)
    return function(share(args[0], 0.5), share(args[1], 0.5), *args[2:], **kwargs)


def detach_in_einsum(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """einsum with its attention operand detached; any other einsum as it is."""
    equation, operands = einsum_operands(args)
    ledger.count("attention", sum(tags.has_tag(o, tags.ATTENTION) for o in operands))
    return function(
        equation,
        *(o.detach() if tags.has_tag(o, tags.ATTENTION) else o for o in operands),
    )


def einsum_operands(args: tuple) -> tuple[str, tuple[Tensor, ...]]:
    """The equation and the operands, which einsum also takes as one list."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return args[0], tuple(operands)


# -- AttnLRP (Achtibat et al. 2024) -------------------------------------------------------------


def fused_uniform(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """Fused attention by AttnLRP: the values get half, the scores what the Taylor rule leaves.

    Relevance is halved at weights x values and again at queries x keys. What the softmax's
    first-order expansion has left over is its bias term, a sink.
    """
    ledger.count("attention")
    call = FusedCall(*args, **kwargs)
    query, key, value = ledger.alias((call.query, call.key, call.value))
    output = function(
        **call._replace(
            query=share(query, 0.25),
            key=share(key, 0.25),
            value=share(value, 0.5),
            attn_mask=_detach(call.attn_mask),
        )._asdict()
    )
    ledger.book_difference("softmax", (query, key, value), output, batch_first=True)
    return output


def softmax_taylor(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """softmax(x) by its first-order expansion: the gradient is the rule, the rest a sink."""
    ledger.check_order(args[0])
    ledger.count("attention")
    (x,) = ledger.alias(args[:1])
    output = function(x, *args[1:], **kwargs)
    ledger.book_difference("softmax", (x,), output, batch_first=True)
    return output


def einsum_uniform(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """einsum; its relevance in equal parts to the operands that depend on the tokens."""
    equation, operands = einsum_operands(args)
    count = sum(map(is_tracked, operands))
    return function(equation, *(share(o, 1 / count) if count > 1 else o for o in operands))


# -- attention maps ------------------------------------------------------------------------------


def unfused_attention(
    call: FusedCall,
    record: Record,
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
    **operations: Any,
) -> Tensor:
    """What fused attention returns, with its map going through `record` on the way."""
    attention, value = attention_weights(call, multiply, **operations)
    return multiply(record(attention), value)


def recording(record: Record, hold: Hold) -> dict[Function, Any]:
    """Rules under which every attention map passes through `record`.

    Fused attention that `hold` takes stays fused.
    """

    def fused(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        call = FusedCall(*args, **kwargs)
        held = hold(call, lambda plain: function(**plain._asdict()))
        return unfused_attention(call, record) if held is None else held

    def mixing(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        if args and tags.has_tag(args[0], tags.ATTENTION):
            args = (record(args[0]), *args[1:])
        return function(*args, **kwargs)

    def einsum(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        equation, operands = einsum_operands(args)
        return function(
            equation,
            *(record(o) if tags.has_tag(o, tags.ATTENTION) else o for o in operands),
        )

    return {
        F.scaled_dot_product_attention: fused,
        **dict.fromkeys(SOFTMAX, tag_softmax),
        **dict.fromkeys(MATMUL, mixing),
        torch.einsum: einsum,
    }


DETACHED = {
    F.scaled_dot_product_attention: detach_in_fused,
    **dict.fromkeys(SOFTMAX, tag_softmax),
    **dict.fromkeys(MATMUL, detach_in_matmul),
    torch.einsum: detach_in_einsum,
}
UNIFORM = {
    F.scaled_dot_product_attention: fused_uniform,
    **dict.fromkeys(SOFTMAX, softmax_taylor),
    **dict.fromkeys(MATMUL, uniform),
    torch.einsum: einsum_uniform,
}
