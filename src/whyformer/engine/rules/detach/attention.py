"""Attention with detached weights (AH rule, Ali et al. 2022, eq. 9) and by AttnLRP.

The AH rule treats the attention weights as constants. In fused attention that means detaching
query, key and additive mask (T5 adds its position bias there). In unfused attention it means
detaching the softmax when it multiplies the values; other softmaxes keep their gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.attention_maps import Hold, Record, tag_softmax, unfused_attention
from whyformer.engine.rules.detach.product import share, uniform
from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import einsum_operands, two_operands
from whyformer.engine.rules.operations.fused_attention import (
    FusedCall,
    attention_weights,
    blocks,
    is_small,
    reached_queries,
    repeat_shared_keys,
)
from whyformer.engine.rules.operations.names import MATMUL, MULTIPLY, SOFTMAX, Function, RuleTable
from whyformer.engine.rules.operations.own_function import apply_own

# -- AH rule -------------------------------------------------------------------------------------


def detach_in_fused(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """Fused attention in which only the values carry relevance."""
    ledger.count("attention")
    return _run_values_only(function, _detach_weights(FusedCall(*args, **kwargs)))


def _detach_weights(call: FusedCall) -> FusedCall:
    """The call with everything detached that decides the attention weights."""
    return call._replace(
        query=call.query.detach(), key=call.key.detach(), attn_mask=_detach(call.attn_mask)
    )


def _run_values_only(function: Function, call: FusedCall) -> Tensor:
    """The output of fused attention with detached weights: a small map is kept."""
    if call.dropout_p or not is_tracked(call.value):
        return function(**call._asdict())
    if is_small(call):
        weights, values = attention_weights(call)
        return weights @ values
    return apply_own(_ValuesOnly, call.value, function, call)


class _ValuesOnly(AutogradFunction):
    """Fused attention whose backward pass computes only the gradient of the values.

    The backward pass of the fused kernels also computes the gradients of query and key. Here the
    map is computed again in blocks of queries, so that memory stays linear in the tokens.
    """

    @staticmethod
    def forward(ctx: Any, value: Tensor, function: Function, call: FusedCall) -> Tensor:
        ctx.call = call._replace(value=value.detach())
        return function(**ctx.call._asdict())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        total, shape = _value_gradient(ctx.call, gradient), ctx.call.value.shape
        if total.shape[-3] != shape[-3]:  # heads that share their values
            total = total.unflatten(-3, (shape[-3], -1)).sum(-3)
        return total.sum_to_size(shape), None, None


def _value_gradient(call: FusedCall, gradient: Tensor) -> Tensor:
    """The gradient of the values of every head, (..., key, feature)."""
    total = gradient.new_zeros(*gradient.shape[:-2], call.key.shape[-2], gradient.shape[-1])
    for block in blocks(repeat_shared_keys(call), reached_queries(gradient)):
        back = block.attention.transpose(-2, -1) @ gradient[..., block.queries, :]
        total[..., block.keys, :] += back
    return total


def detach_in_matmul(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """attention @ values with detached attention; other products give half to each factor.

    By gradient each of two tracked factors would get the whole relevance: the similarity of two
    towers would count twice. Halves are only for methods that conserve (`ledger.active`).
    """
    if tags.is_weight(args[0]):
        ledger.count("attention")
        return function(args[0].detach(), *args[1:], **kwargs)
    if len(args) < 2 or not (ledger.active and is_tracked(args[0]) and is_tracked(args[1])):
        return function(*args, **kwargs)
    return function(share(args[0], 0.5), share(args[1], 0.5), *args[2:], **kwargs)


def detach_in_products(table: RuleTable, part: float = 0.0) -> RuleTable:
    """The table of products, in which a softmax is a constant factor.

    Such a softmax weights tokens that are added up later, or the experts of a mixture. It takes
    `part` of the relevance.
    """

    def weight(
        ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any], rule: Function
    ) -> Any:
        left, right = two_operands(args, kwargs)
        if is_tracked(left) and is_tracked(right):
            of_left, of_right = tags.is_weight(left), tags.is_weight(right)
            if of_left != of_right and part:
                left = share(left, part if of_left else 1 - part)
                return function(left, share(right, part if of_right else 1 - part))
            if of_left != of_right:
                args = (left.detach(), right) if of_left else (left, right.detach())
        return rule(ledger, function, args, kwargs)

    return {**table, **{f: partial(weight, rule=table[f]) for f in MULTIPLY if f in table}}


def share_with_routers(table: RuleTable) -> RuleTable:
    """The table, in which routers of experts take half of the relevance of what they weight.

    Their softmax follows its first-order expansion, whose bias term is the sink "router". The
    softmax of attention takes no relevance, so those that do inside the blocks are routers.
    """

    def softmax(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        if ledger.place is None:
            return tag_softmax(ledger, function, args, kwargs)
        (x,) = ledger.alias(args[:1])
        output = function(x, *args[1:], **kwargs)
        ledger.book_difference("router", (x,), output, batch_first=True)
        return tags.add_tag(output, tags.ATTENTION)

    return {**table, **dict.fromkeys(SOFTMAX, softmax)}


def detach_in_einsum(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """einsum with detached attention maps; other operands share the relevance, as in a matmul."""
    return _einsum(ledger, function, args, Tensor.detach)


def _einsum(
    ledger: Ledger, function: Function, args: tuple, detach: Callable[[Tensor], Tensor]
) -> Tensor:
    equation, operands = einsum_operands(args)
    is_map = [tags.has_tag(operand, tags.ATTENTION) for operand in operands]
    ledger.count("attention", sum(is_map))
    sharing = sum(is_tracked(o) for o, m in zip(operands, is_map, strict=True) if not m)
    part = 1 / sharing if ledger.active and sharing > 1 else 1.0
    return function(
        equation,
        *(
            detach(o) if m else share(o, part) if part < 1 else o
            for o, m in zip(operands, is_map, strict=True)
        ),
    )


def detach_places(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """grid_sampler(values, places, ...): what is read counts, where it is read is a constant."""
    ledger.count("attention")
    values, places, *settings = args
    return function(values, places.detach(), *settings, **kwargs)


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def detached_and_recorded(record: Record, hold: Hold) -> RuleTable:
    """{operation: rule} of the AH rule, for methods that also read the maps and their gradient.

    Each detached map goes through `record`, which makes it a leaf: its gradient is that of the
    explained value with all other attention weights constant.
    """

    def fused(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        ledger.count("attention")
        call = _detach_weights(FusedCall(*args, **kwargs))
        output = hold(call, lambda plain: _run_values_only(function, plain))
        return unfused_attention(call, record) if output is None else output

    def matmul(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        if not tags.has_tag(args[0], tags.ATTENTION):
            return detach_in_matmul(ledger, function, args, kwargs)
        ledger.count("attention")
        return function(record(args[0].detach()), *args[1:], **kwargs)

    def einsum(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        return _einsum(ledger, function, args, lambda attention: record(attention.detach()))

    return {
        **DETACHED,
        F.scaled_dot_product_attention: fused,
        **dict.fromkeys(MATMUL, matmul),
        torch.einsum: einsum,
    }


# -- AttnLRP (Achtibat et al. 2024) --------------------------------------------------------------


def uniform_in_fused(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """Fused attention by AttnLRP: half to the values, a quarter each to query and key.

    Relevance is halved at weights x values and again at query x key. The softmax follows its
    first-order expansion, whose bias term is a sink.
    """
    return _uniform_call(ledger, args, kwargs, lambda call: function(**call._asdict()))


def _uniform_call(
    ledger: Ledger, args: tuple, kwargs: dict[str, Any], run: Callable[[FusedCall], Tensor]
) -> Tensor:
    """The output of `run` on the call with shares of relevance for query, key and value."""
    ledger.count("attention")
    call = FusedCall(*args, **kwargs)
    query, key, value = ledger.alias((call.query, call.key, call.value))
    tracked = [query, key, value]
    mask = _detach(call.attn_mask)
    if call.attn_mask is not None and is_tracked(call.attn_mask):
        # Scores of positions that the query asks for: a summand of query x key, not a factor.
        (mask,) = ledger.alias((call.attn_mask.clamp(min=torch.finfo(query.dtype).min),))
        tracked.append(mask)
        mask = share(mask, 0.5)
    shared = call._replace(
        query=share(query, 0.25), key=share(key, 0.25), value=share(value, 0.5), attn_mask=mask
    )
    output = run(shared)
    ledger.book_difference("softmax", tuple(tracked), output, batch_first=True)
    return output


def softmax_taylor(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """softmax(x) by its first-order expansion: relevance by gradient, the bias term is a sink."""
    ledger.count("attention")
    (x,) = ledger.alias(args[:1])
    output = function(x, *args[1:], **kwargs)
    ledger.book_difference("softmax", (x,), output, batch_first=True)
    return output


def uniform_in_einsum(
    ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """einsum with equal parts of the relevance for all tracked operands."""
    equation, operands = einsum_operands(args)
    count = sum(map(is_tracked, operands))
    return function(equation, *(share(o, 1 / count) if count > 1 else o for o in operands))


def uniform_and_recorded(record: Record, hold: Hold) -> RuleTable:
    """{operation: rule} of AttnLRP, for methods that also read the maps and their gradient."""

    def fused(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        def run(call: FusedCall) -> Tensor:
            output = hold(call, lambda plain: function(**plain._asdict()))
            return unfused_attention(call, record) if output is None else output

        return _uniform_call(ledger, args, kwargs, run)

    def softmax(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        return tags.add_tag(softmax_taylor(ledger, function, args, kwargs), tags.ATTENTION)

    # Maps are recorded after their share: their gradient is then that of the explained value.
    def matmul(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        if not tags.has_tag(args[0], tags.ATTENTION):
            return uniform(ledger, function, args, kwargs)
        left, right = args[:2]
        part = 0.5 if is_tracked(left) and is_tracked(right) else 1.0
        return function(record(share(left, part)), share(right, part), *args[2:], **kwargs)

    def einsum(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
        equation, operands = einsum_operands(args)
        part = 1 / max(1, sum(map(is_tracked, operands)))
        shared = [
            record(share(o, part)) if tags.has_tag(o, tags.ATTENTION) else share(o, part)
            for o in operands
        ]
        return function(equation, *shared)

    return {
        **UNIFORM,
        F.scaled_dot_product_attention: fused,
        **dict.fromkeys(SOFTMAX, softmax),
        **dict.fromkeys(MATMUL, matmul),
        torch.einsum: einsum,
    }


DETACHED = {
    F.scaled_dot_product_attention: detach_in_fused,
    **dict.fromkeys(SOFTMAX, tag_softmax),
    **dict.fromkeys(MATMUL, detach_in_matmul),
    torch.einsum: detach_in_einsum,
    torch.grid_sampler: detach_places,
}
UNIFORM = {
    F.scaled_dot_product_attention: uniform_in_fused,
    **dict.fromkeys(SOFTMAX, softmax_taylor),
    **dict.fromkeys(MATMUL, uniform),
    torch.einsum: uniform_in_einsum,
    torch.grid_sampler: detach_places,
}
