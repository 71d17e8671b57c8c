"""Activations that pass relevance unchanged: y = x * (f(x) / x) with a detached factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.names import ACTIVATION, SQUASHING, Function
from whyformer.engine.rules.operations.own_function import apply_own
from whyformer.engine.rules.operations.stabilise import is_finite


class _IdentityActivation(AutogradFunction):
    """f(x) exactly, with the gradient of x * (f(x) / x); and whether x may have zeros."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, activate: Callable[[Tensor], Tensor]) -> tuple[Tensor, bool]:
        output = activate(x)
        factor = output / x
        may_have_zeros = not is_finite(factor)
        if may_have_zeros:
            factor.masked_fill_(x == 0, 0)
        ctx.save_for_backward(factor)
        return output, may_have_zeros

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: None) -> tuple[Any, ...]:
        (factor,) = ctx.saved_tensors
        return gradient * factor, None


def identity(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """f(x), tagged as a possible gate; f(0) is a sink, since no input can take it."""
    x = args[0] if args else kwargs["input"]
    if not is_tracked(x):
        return function(*args, **kwargs)
    others = {key: value for key, value in kwargs.items() if key != "input"}

    def activate(x: Tensor) -> Tensor:
        return function(x, *args[1:], **others)

    output, may_have_zeros = apply_own(_IdentityActivation, x, activate)
    if ledger.active and may_have_zeros:
        offset = output.detach() * (x.detach() == 0)
        if offset.any():
            ledger.book_constant("activation", output, offset)
    return tags.add_tag(output, tags.SQUASHED if function in SQUASHING else tags.GATE)


TABLE = dict.fromkeys(ACTIVATION, identity)
