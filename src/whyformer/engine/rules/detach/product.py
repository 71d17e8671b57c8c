"""Products of two things that both depend on the tokens: gates, scores, mixed values.

By gradient each factor would get the whole relevance, twice too much in all. "gate" gives it to
the factor that is not a gate; "uniform" gives half to each (Achtibat et al. 2024, eq. 15).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.names import DIVIDE, MATMUL, MULTIPLY, Function


class _Share(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, share: float) -> Tensor:
        ctx.share = share
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.share, None


def share(tensor: Tensor, part: float) -> Tensor:
    """The tensor unchanged; its gradient, and so its relevance, is that part."""
    return _Share.apply(tensor, part) if tensor.requires_grad else tensor


def _two(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    if len(args) > 1:
        return args[0], args[1]
    return args[0], next(kwargs[k] for k in ("other", "mat2", "vec", "tensor") if k in kwargs)


def plain(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The product itself; a mark passes through a factor that does not depend on the tokens."""
    output = function(*args, **kwargs)
    left, right = _two(args, kwargs)
    if not is_tracked(right):
        tags.copy_tag(left, output)
    elif not is_tracked(left):
        tags.copy_tag(right, output)
    return output


def gate(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left * right; all relevance to the factor that is not a gate, shared where none is."""
    left, right = _two(args, kwargs)
    if not (is_tracked(left) and is_tracked(right)):
        return plain(ledger, function, args, kwargs)
    return _gated(function, left, right, (tags.SQUASHED, tags.GATE))


def _gated(function: Function, left: Tensor, right: Tensor, gates: tuple[str, ...]) -> Any:
    """left * right; all relevance to the factor that is no gate, in halves where none is one."""
    for kind in gates:
        if tags.has_tag(right, kind):
            return function(left, right.detach())
        if tags.has_tag(left, kind):
            return function(left.detach(), right)
    return function(share(left, 0.5), share(right, 0.5))


def uniform(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left * right; half the relevance to each, but x * tanh(...) is one activation."""
    left, right = _two(args, kwargs)
    if not (is_tracked(left) and is_tracked(right)):
        return plain(ledger, function, args, kwargs)
    return _gated(function, left, right, (tags.SQUASHED,))


def divide(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left / right; the divisor is a scale: it takes nothing."""
    left, right = _two(args, kwargs)
    if not (is_tracked(left) and is_tracked(right)):
        return tags.copy_tag(left, function(*args, **kwargs))
    return tags.copy_tag(left, function(left, right.detach(), *args[2:]))


PLAIN = {**dict.fromkeys(MULTIPLY | DIVIDE, plain)}
GATE = {**dict.fromkeys(MULTIPLY, gate), **dict.fromkeys(DIVIDE, divide)}
UNIFORM = {**dict.fromkeys(MULTIPLY | MATMUL, uniform), **dict.fromkeys(DIVIDE, divide)}
