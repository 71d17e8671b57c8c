"""Linear layers and matrix products whose backward carries gradient or relevance.

They take nearly all of the time, so each is one autograd function instead of an operation with a
switch behind it.
"""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.operations.matrix_product import multiply
from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.rules.relevance import shares
from whyformer.engine.rules.relevance.context import LinearRule
from whyformer.engine.rules.relevance.switch import Direction


def linear(
    direction: Direction, rule: LinearRule, x: Tensor, w: Tensor, bias: Tensor | None
) -> Tensor:
    """x @ w.T + bias; relevance goes to x by the rule, and none to the bias."""
    return _RelevanceLinear.apply(direction, rule, x, w, bias)


def matmul(direction: Direction, left: Tensor, right: Tensor) -> Tensor:
    """left @ right of two tracked tensors; half of the relevance goes to each."""
    return _RelevanceMatmul.apply(direction, left, right)


class _RelevanceLinear(AutogradFunction):
    """A linear layer; the backward pass computes only rows whose gradient is not all 0."""

    @staticmethod
    def forward(
        ctx: Any, direction: Direction, rule: LinearRule, x: Tensor, w: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        rows = x.reshape(-1, x.shape[-1])
        output = F.linear(rows, wide(w), bias)
        ctx.direction, ctx.rule, ctx.shape = direction, rule, x.shape
        ctx.save_for_backward(rows, w, bias, output)
        return output.view(*x.shape[:-1], output.shape[-1])

    @staticmethod
    def backward(ctx: Any, arriving: Tensor | None) -> tuple[Any, ...]:
        if arriving is None:
            return (None,) * 5
        x, w, bias, output = ctx.saved_tensors
        w = wide(w)  # not kept wide: that would be a second copy of the model
        arriving = arriving.reshape(-1, arriving.shape[-1])
        rows = _arriving_rows(ctx.direction, arriving)
        count = len(arriving)
        if rows is not None:
            arriving, x, output = arriving[rows], x[rows], output[rows]
        relevance = ctx.direction.relevance
        back = ctx.rule(arriving, x, w, output, bias) if relevance else multiply(arriving, w)
        if rows is not None:
            back = back.new_zeros(count, w.shape[1]).index_copy_(0, rows, back)
        return None, None, back.view(ctx.shape), None, None


# Rows of pooled samples are all reached, and say nothing about the rows of tokens.
_MORE_THAN_POOLED = 32
# In the highest attention keys and values reach every token, queries perhaps only one.
_KEYS_AND_VALUES = 2


def _arriving_rows(direction: Direction, arriving: Tensor) -> Tensor | None:
    """Indices of the rows that are not all 0; None if that is every row.

    Only layers above the highest attention have empty rows. Some of the columns are checked first.
    """
    if direction.full > _KEYS_AND_VALUES:
        return None
    if arriving[:, :: max(1, arriving.shape[1] // 8)].any(-1).all():
        direction.full += len(arriving) > _MORE_THAN_POOLED
        return None
    return arriving.any(-1).nonzero().flatten()


class _RelevanceMatmul(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, direction: Direction, left: Tensor, right: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        output = left @ right
        ctx.direction = direction
        ctx.save_for_backward(left, right, output)
        return output

    @staticmethod
    def backward(ctx: Any, arriving: Tensor | None) -> tuple[Any, ...]:
        if arriving is None:
            return None, None, None
        left, right, output = ctx.saved_tensors
        if ctx.direction.relevance:
            # Lengths bound the terms of the products, and cost no product.
            terms = left.norm(dim=-1, keepdim=True) * right.norm(dim=-2, keepdim=True)
            ctx.direction.rounding.note(arriving, output, terms)
            parts = shares.matmul(arriving, left, right, output)
        else:
            parts = [arriving @ right.transpose(-2, -1), left.transpose(-2, -1) @ arriving]
        needed = zip(parts, (left, right), ctx.needs_input_grad[1:], strict=True)
        return None, *(part.sum_to_size(x.shape) if need else None for part, x, need in needed)
