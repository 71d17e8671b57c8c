"""Python bodies of composite torch functions, so that rules see the operations inside them.

`F.multi_head_attention_forward` and similar functions reach the interception as one opaque call,
because their first lines dispatch the whole call to it. The interception runs the bodies that this
module returns: the same code with that dispatch switched off.
"""

from __future__ import annotations

import functools
from types import FunctionType

import torch
from torch import Tensor

from whyformer.engine.rules.operations.names import Function

_DISPATCH = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


@functools.cache
def python_body(function: Function) -> Function | None:
    """The function's body without the dispatch; None if it has no Python body."""
    if function in _DECOMPOSITIONS:
        return _DECOMPOSITIONS[function]
    if not isinstance(function, FunctionType) or not function.__module__.startswith("torch"):
        return None
    if not any(name in function.__code__.co_names for name in _DISPATCH):
        return None
    names = function.__globals__ | dict.fromkeys(_DISPATCH, _never)
    body = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    body.__kwdefaults__ = function.__kwdefaults__
    return body


def _baddbmm(
    added: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1
) -> Tensor:
    """torch.baddbmm as operations that have rules: both factors may depend on the tokens."""
    product = torch.bmm(left, right)
    product = product if alpha == 1 else product * alpha
    return product + (added if beta == 1 else added * beta)


# Operations without a Python body that combine two others.
_DECOMPOSITIONS: dict[Function, Function] = dict.fromkeys((torch.baddbmm, Tensor.baddbmm), _baddbmm)


def _never(*_: object) -> bool:
    return False
