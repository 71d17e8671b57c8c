"""Relevance rules of linear layers, matrix products, einsum and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import bind, einsum_operands
from whyformer.engine.rules.operations.linear_layer import make_double, run_linear
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.rules.operations.stabilise import ratio
from whyformer.engine.rules.relevance import contractions, shares
from whyformer.engine.rules.relevance.context import RuleContext
from whyformer.engine.rules.relevance.switch import pass_unchanged, run_without_rule, use_formula


def linear(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Tensor:
    """F.linear: by the linear rule, or by the rule for products if the weight is tracked."""
    x, w, bias = bind("input weight bias", args, kwargs)
    if is_tracked(w):
        product = contractions.matmul(context.direction, x, w.transpose(-2, -1))
        if bias is None:
            return product
        return pass_unchanged(context.direction, product + bias, product)
    if not is_tracked(x):
        return run_linear(function, (x, w, bias), {})
    x, w, bias = make_double(x, w, bias)
    return contractions.linear(context.direction, context.linear_rule, x, w, bias)


def addmm(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Tensor:
    """bias + x @ w, the linear layer of GPT-2."""
    bias, x, w = args[:3]
    if kwargs or not is_tracked(x) or is_tracked(w) or is_tracked(bias):
        return run_without_rule(context.direction, function, args, kwargs)
    return contractions.linear(context.direction, context.linear_rule, x, w.t(), bias)


def matmul(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Tensor:
    """left @ right; attention maps are recorded, and a constant matrix is a linear layer."""
    left, right = bind("input other", args, kwargs)
    attention = tags.has_tag(left, tags.ATTENTION)
    if attention:
        left = context.record(left)
    if right is None or not (is_tracked(left) or is_tracked(right)):
        return function(left, *args[1:], **kwargs)
    if not attention and not is_tracked(right) and right.dim() == 2:
        return contractions.linear(context.direction, context.linear_rule, left, right.t(), None)
    if not is_tracked(left) and left.dim() == 2 and right.dim() >= 2:
        turned = right.transpose(-2, -1)
        mixed = contractions.linear(context.direction, context.linear_rule, turned, left, None)
        return mixed.transpose(-2, -1)
    if left.dim() < 2 or right.dim() < 2:
        return run_without_rule(context.direction, function, args, kwargs)
    return contractions.matmul(context.direction, left, right)


def einsum(
    context: RuleContext, ledger: Ledger, function: Function, args: tuple, kwargs: Any
) -> Tensor:
    """einsum; attention maps are recorded, and an operand with a constant is a linear layer."""
    equation, originals = einsum_operands(args)
    operands = [context.record(o) if tags.has_tag(o, tags.ATTENTION) else o for o in originals]
    output = function(equation, *operands)
    if not is_tracked(output):
        return output
    mixes = any(tags.has_tag(o, tags.ATTENTION) for o in originals)
    # Attention and values share relevance, also if the values are not tracked.
    sharing = len(operands) if mixes else sum(map(is_tracked, operands))
    normalise, direction = context.normalise, context.direction

    def contract(*tensors: Tensor) -> Tensor:
        return function(equation, *tensors)

    def signed(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        direction.rounding.note(relevance, out, contract(*(x.abs() for x in inputs)))
        back = partial(shares.vector_jacobian, contract, inputs)
        return shares.contributions(relevance, inputs, out, back, sharing)

    def positive(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        halves = [[x.clamp(min=0) for x in inputs], [x.clamp(max=0) for x in inputs]]
        sums = [contract(*half) for half in halves]
        sums = [sums[0] + sums[1]] * 2 if normalise else sums
        totals = [torch.zeros_like(x) for x in inputs]
        for half, whole in zip(halves, sums, strict=True):
            share = ratio(relevance, whole, shares.EPSILON)
            back = shares.vector_jacobian(contract, half, share)
            totals = [t + x * b for t, x, b in zip(totals, half, back, strict=True)]
        return totals

    is_linear = len(operands) == 2 and sharing == 1
    return use_formula(direction, positive if is_linear else signed, output, operands)


def convolution(
    context: RuleContext,
    ledger: Ledger,
    function: Function,
    args: tuple,
    kwargs: Any,
) -> Tensor:
    """A convolution as a linear layer; by the z^B rule if its input is an image's pixels."""
    transposed = "transpose" in function.__name__
    names = (
        f"stride padding {'output_padding groups dilation' if transposed else 'dilation groups'}"
    )
    x, w, bias, *places = bind(f"input weight bias {names}", args, kwargs)
    if not is_tracked(x) or is_tracked(w):
        return run_without_rule(context.direction, function, args, kwargs)
    geometry = {
        name: value for name, value in zip(names.split(), places, strict=True) if value is not None
    }
    normalise = context.normalise

    def apply(x: Tensor, w: Tensor, bias: Tensor | None = None) -> Tensor:
        # In float64: the denominators in the blocks would magnify the rounding errors.
        wide = [None if t is None else t.double() for t in (x, w, bias)]
        return function(*wide, **geometry).to(x.dtype)

    def back(share: Tensor, w: Tensor) -> Tensor:
        return shares.vector_jacobian(lambda x: function(x, w, **geometry), [x], share)[0]

    def formula(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        if tags.has_tag(x, tags.PIXELS):
            return [shares.pixels(relevance, inputs[0], w, apply, back)]
        above, below = inputs[0].clamp(min=0), inputs[0].clamp(max=0)
        parts = apply(above, w.clamp(min=0)), apply(below, w.clamp(max=0))
        joint = parts[0] + parts[1]
        whole = (joint, joint) if normalise else parts
        first, second = (ratio(relevance, z, shares.EPSILON) for z in whole)
        return [above * back(first, w.clamp(min=0)) + below * back(second, w.clamp(max=0))]

    return use_formula(context.direction, formula, apply(x, w, bias), (x,))
