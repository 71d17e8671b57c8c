"""Linear layers and products of activations whose backward is gradient or relevance.

They carry nearly all of the cost, so they are autograd functions of their own rather than an
operation and a switch behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules import blocked_matmul
from whyformer.engine.rules.magnitudes import stamped
from whyformer.engine.rules.relevance import shares
from whyformer.engine.rules.relevance.shares import Known
from whyformer.engine.rules.relevance.switch import Direction
from whyformer.engine.rules.scratch import Room

# rule(relevance, x, w, output, bias, known, room) -> the relevance of x, rows of tokens each
LinearRule = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None, Known, Room], Tensor]


def linear(
    direction: Direction, rule: LinearRule, x: Tensor, w: Tensor, bias: Tensor | None
) -> Tensor:
    """x @ w.T + bias; relevance goes to x by the rule, and none to the bias."""
    return _Linear.apply(direction, rule, x, w, bias)


def matmul(direction: Direction, left: Tensor, right: Tensor) -> Tensor:
    """left @ right of two activations; half of the relevance goes to each."""
    return _Matmul.apply(direction, left, right)


class _Linear(AutogradFunction):
    """Rows that nothing comes back to cost nothing on the way back."""

    @staticmethod
    def forward(
        ctx: Any, direction: Direction, rule: LinearRule, x: Tensor, w: Tensor, bias: Tensor | None
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        rows = x.reshape(-1, x.shape[-1])
        output, ctx.imprint = stamped(rows, w, bias, direction.scratch.room)
        ctx.direction, ctx.rule, ctx.shape = direction, rule, x.shape
        ctx.save_for_backward(rows, w, bias, output)
        return output.view(*x.shape[:-1], output.shape[-1])

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None) -> tuple[Any, ...]:
        if passed is None:
            return (None,) * 5
        x, w, bias, output = ctx.saved_tensors
        arriving = passed.reshape(-1, passed.shape[-1])
        rows = _arriving_rows(ctx.direction, arriving)
        count = len(arriving)
        if rows is not None:
            arriving, x, output = arriving[rows], x[rows], output[rows]
        if ctx.direction.relevance:
            known = partial(ctx.direction.absolutes, imprint=ctx.imprint)
            back = ctx.rule(arriving, x, w, output, bias, known, ctx.direction.scratch.room)
        else:
            back = blocked_matmul.multiply(arriving, w)
        if rows is not None:
            back = back.new_zeros(count, w.shape[1]).index_copy_(0, rows, back)
        return None, None, back.view(ctx.shape), None, None


def _arriving_rows(direction: Direction, arriving: Tensor) -> Tensor | None:
    """Which rows have anything in them, or None for all.

    Only above the highest attention are there rows without; a glance at a few columns tells.
    """
    if direction.full > _KEYS_AND_VALUES:
        return None
    if arriving[:, :: max(1, arriving.shape[1] // 8)].any(-1).all():
        direction.full += len(arriving) > _MORE_THAN_POOLED
        return None
    return arriving.any(-1).nonzero().flatten()


_MORE_THAN_POOLED = 32  # rows of pooled samples are all full, and say nothing about tokens
# The highest attention's keys and values come from every token, its queries perhaps from one.
_KEYS_AND_VALUES = 2


class _Matmul(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, direction: Direction, left: Tensor, right: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        output = left @ right
        ctx.direction = direction
        ctx.save_for_backward(left, right, output)
        return output

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None) -> tuple[Any, ...]:
        if passed is None:
            return None, None, None
        left, right, output = ctx.saved_tensors
        if ctx.direction.relevance:
            parts = shares.matmul(passed, left, right, output)
        else:
            parts = [passed @ right.transpose(-2, -1), left.transpose(-2, -1) @ passed]
        wanted = zip(parts, (left, right), ctx.needs_input_grad[1:], strict=True)
        return None, *(part.sum_to_size(x.shape) if want else None for part, x, want in wanted)
