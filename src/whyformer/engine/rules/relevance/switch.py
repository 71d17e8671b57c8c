"""One graph for two backward passes: first the gradient, then relevance.

A rule runs the operation and puts a switch behind it. In the gradient pass the switch sends the
gradient back through the operation. In the relevance pass it hands relevance to the inputs of the
operation by a formula. Operations without a switch (views, indexing, concatenation) move relevance
by their own backward, which only rearranges and adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.ledger import is_tracked
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.rules.relevance.rounding import RoundingError
from whyformer.errors import ModelError

# formula(relevance, inputs, output) -> the relevance of each input
Formula = Callable[[Tensor, Sequence[Tensor], Tensor], Sequence[Tensor | None]]


class Direction:
    """Which of the two backward passes is running; shared by all switches of one graph."""

    def __init__(self, batch: int = 1) -> None:
        self.relevance = False
        self.rounding = RoundingError(batch)
        self.full = 0  # linear layers of this pass whose rows were all reached

    def turn(self) -> None:
        """End the gradient pass and begin the relevance pass."""
        self.relevance, self.full = True, 0


class _FormulaSwitch(AutogradFunction):
    @staticmethod
    def forward(
        ctx: Any, direction: Direction, formula: Formula, output: Tensor, *inputs: Tensor
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.direction, ctx.formula = direction, formula
        ctx.save_for_backward(output, *inputs)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor | None) -> tuple[Any, ...]:
        output, *inputs = ctx.saved_tensors
        nothing = (None,) * len(inputs)
        if arriving is None:
            return (None, None, None, *nothing)
        if not ctx.direction.relevance:
            return (None, None, arriving, *nothing)
        relevances = ctx.formula(arriving, inputs, output)
        return (
            None,
            None,
            None,
            *(
                relevance if needed else None
                for relevance, needed in zip(relevances, ctx.needs_input_grad[3:], strict=True)
            ),
        )


class _IdentitySwitch(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, direction: Direction, output: Tensor, source: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.direction, ctx.shape = direction, source.shape
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, arriving: Tensor | None) -> tuple[Any, ...]:
        if arriving is None or not ctx.direction.relevance:
            return None, arriving, None
        return None, None, arriving.sum_to_size(ctx.shape)


def use_formula(
    direction: Direction, formula: Formula, output: Tensor, inputs: Sequence[Tensor]
) -> Tensor:
    """The output, whose relevance goes to the inputs by the formula."""
    return _FormulaSwitch.apply(direction, formula, output, *inputs)


def pass_unchanged(direction: Direction, output: Tensor, source: Tensor) -> Tensor:
    """The output, whose relevance goes to the source unchanged."""
    return _IdentitySwitch.apply(direction, output, source)


def run_without_rule(direction: Direction, function: Function, args: tuple, kwargs: Any) -> Any:
    """The operation's output; the backward pass raises ModelError if relevance arrives there."""
    output = function(*args, **kwargs)
    sources = [x for x in args if is_tracked(x)]

    def refuse(relevance: Tensor, inputs: Sequence[Tensor], out: Tensor) -> list[Tensor]:
        if not relevance.any():
            return [torch.zeros_like(x) for x in inputs]
        raise ModelError(
            f"relevance reaches the operation '{function.__name__}', which has no relevance rule",
            argument="method",
            remedy="Use a method that needs no relevance rules",
        )

    def guard(value: Any) -> Any:
        return use_formula(direction, refuse, value, sources) if is_tracked(value) else value

    if type(output) in (tuple, list):
        return type(output)(guard(value) for value in output)
    return guard(output)
