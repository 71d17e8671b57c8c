"""Products of two factors that both depend on the tokens: gated units, scores, mixed values.

By gradient each factor would get the whole relevance, so that it doubles. "gate" gives it to the
factor that is not a gate; "uniform" gives half to each (Achtibat et al. 2024, eq. 15).
"""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.ledger import Ledger, is_tracked
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.arguments import two_operands
from whyformer.engine.rules.operations.names import DIVIDE, MATMUL, MULTIPLY, Function
from whyformer.engine.rules.operations.own_function import apply_own


class _Share(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, share: float) -> Tensor:
        ctx.share = share
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.share, None


def share(tensor: Tensor, part: float) -> Tensor:
    """The same tensor; its gradient, and so its relevance, is multiplied by `part`."""
    return apply_own(_Share, tensor, part) if tensor.requires_grad else tensor


def plain(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The product; a tag is copied if only one factor depends on the tokens.

    Attention weights that multiply values one by one are constants, as in a product of matrices.
    Only rules that detach attention tag them.
    """
    left, right = two_operands(args, kwargs)
    if is_tracked(left) and is_tracked(right):
        for factor in (left, right):
            if tags.has_tag(factor, tags.ATTENTION):
                ledger.count("attention")
                return _multiply(function, left, right, (tags.ATTENTION,))
    output = function(*args, **kwargs)
    if not is_tracked(right):
        tags.copy_tag(left, output)
    elif not is_tracked(left):
        tags.copy_tag(right, output)
    return output


def gate(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left * right; relevance goes to the factor that is not a gate."""
    left, right = two_operands(args, kwargs)
    if not (is_tracked(left) and is_tracked(right)):
        return plain(ledger, function, args, kwargs)
    return _multiply(function, left, right, (tags.SQUASHED, tags.GATE, tags.ATTENTION))


def _multiply(function: Function, left: Tensor, right: Tensor, gates: tuple[str, ...]) -> Any:
    """left * right; relevance goes to the factor that is not a gate, without gates half to each."""
    for kind in gates:
        if tags.has_tag(right, kind):
            return function(left, right.detach())
        if tags.has_tag(left, kind):
            return function(left.detach(), right)
    return function(share(left, 0.5), share(right, 0.5))


def uniform(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left * right; half of the relevance to each, except that x * tanh(x) is one activation."""
    left, right = two_operands(args, kwargs)
    if not (is_tracked(left) and is_tracked(right)):
        return plain(ledger, function, args, kwargs)
    return _multiply(function, left, right, (tags.SQUASHED, tags.ATTENTION))


def divide(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """left / right; the divisor takes no relevance."""
    left, right = two_operands(args, kwargs)
    if not (is_tracked(left) and is_tracked(right)):
        return tags.copy_tag(left, function(*args, **kwargs))
    return tags.copy_tag(left, function(left, right.detach(), *args[2:]))


PLAIN = {**dict.fromkeys(MULTIPLY | DIVIDE, plain)}
GATE = {**dict.fromkeys(MULTIPLY, gate), **dict.fromkeys(DIVIDE, divide)}
UNIFORM = {**dict.fromkeys(MULTIPLY | MATMUL, uniform), **dict.fromkeys(DIVIDE, divide)}
