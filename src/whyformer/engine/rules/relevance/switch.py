"""One graph, two passes: a backward that carries gradient or relevance, as a flag says.

An operation runs as it is; a switch behind it sends the gradient back through the operation, or
lets a formula hand relevance straight to the operation's inputs. Everything without a switch
(views, indexing, joining) moves relevance by its own backward, which only rearranges and adds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.magnitudes import MAGNITUDES
from whyformer.engine.rules.relevance.shares import Absolutes, absolutes
from whyformer.engine.rules.scratch import Scratch

# formula(relevance, inputs, output) -> the inputs' relevances
Formula = Callable[[Tensor, Sequence[Tensor], Tensor], Sequence[Tensor | None]]


class Direction:
    """Which of the two passes is under way."""

    def __init__(self) -> None:
        self.relevance = False
        self.full = 0  # linear layers so far on the way down that every token came back to
        self.scratch = Scratch()

    def absolutes(self, w: Tensor, bias: Tensor | None, imprint: Tensor | None = None) -> Absolutes:
        """A layer's, good until the next one's of the same size."""
        known = MAGNITUDES.of(w, bias, imprint)
        return known or absolutes(w, bias, out=self.scratch.room("weights", w.shape, w))

    def turn(self) -> None:
        """The gradient pass is over, the relevance pass begins."""
        self.relevance, self.full = True, 0


class _Switch(AutogradFunction):
    @staticmethod
    def forward(
        ctx: Any, direction: Direction, formula: Formula, output: Tensor, *inputs: Tensor
    ) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.direction, ctx.formula = direction, formula
        ctx.save_for_backward(output, *inputs)
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None) -> tuple[Any, ...]:
        output, *inputs = ctx.saved_tensors
        nothing = (None,) * len(inputs)
        if passed is None:
            return (None, None, None, *nothing)
        if not ctx.direction.relevance:
            return (None, None, passed, *nothing)
        relevances = ctx.formula(passed, inputs, output)
        return (
            None,
            None,
            None,
            *(
                relevance if wanted else None
                for relevance, wanted in zip(relevances, ctx.needs_input_grad[3:], strict=True)
            ),
        )


class _Pass(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, direction: Direction, output: Tensor, source: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        ctx.direction, ctx.shape = direction, source.shape
        return output.view_as(output)

    @staticmethod
    def backward(ctx: Any, passed: Tensor | None) -> tuple[Any, ...]:
        if passed is None or not ctx.direction.relevance:
            return None, passed, None
        return None, None, passed.sum_to_size(ctx.shape)


def use_formula(
    direction: Direction, formula: Formula, output: Tensor, inputs: Sequence[Tensor]
) -> Tensor:
    """The output; relevance goes from it to the inputs by the formula."""
    return _Switch.apply(direction, formula, output, *inputs)


def pass_unchanged(direction: Direction, output: Tensor, source: Tensor) -> Tensor:
    """The output; relevance goes from it to the source unchanged."""
    return _Pass.apply(direction, output, source)
