"""Python bodies of composite torch functions, so that rules see the operations inside them.

`F.multi_head_attention_forward` and similar functions reach the interception as one opaque call,
because their first lines dispatch the whole call to it. The interception runs the bodies that this
module returns: the same code with that dispatch switched off.
"""

from __future__ import annotations

import dis
import functools
from types import FunctionType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch._ops import OpOverload, OpOverloadPacket

from whyformer.engine.rules.operations.names import Function
from whyformer.models.recurrences import mixing_parameter

_DISPATCH = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")


@functools.cache
def python_body(function: Function) -> Function | None:
    """The function's body without the dispatch; None if it has no Python body."""
    if function in _DECOMPOSITIONS:
        return _DECOMPOSITIONS[function]
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        if str(function).startswith("quantized.linear_dynamic"):
            return _linear_dynamic
        return _public_function(function)
    if not isinstance(function, FunctionType) or not function.__module__.startswith("torch"):
        return None
    if not _dispatches(function):
        return None
    names = function.__globals__ | dict.fromkeys(_DISPATCH, _never)
    body = FunctionType(
        function.__code__, names, function.__name__, function.__defaults__, function.__closure__
    )
    body.__kwdefaults__ = function.__kwdefaults__
    return body


def _public_function(operator: OpOverload | OpOverloadPacket) -> Function | None:
    """The function of torch for `torch.ops.aten.gelu` and the like; None if there is none."""
    space, _, name = str(operator).partition(".")
    name = name.partition(".")[0]
    if space != "aten" or name.endswith("_"):
        return None
    found: list[Function | None] = [getattr(owner, name, None) for owner in (F, torch, Tensor)]
    return next(filter(callable, found), None)


def _dispatches(function: FunctionType) -> bool:
    """Whether the function asks one of `_DISPATCH` as a global name, which can be replaced."""
    return any(
        step.opname == "LOAD_GLOBAL" and step.argval in _DISPATCH
        for step in dis.get_instructions(function)
    )


def _add_product(multiply: Function, names: str) -> Function:
    """beta * input + alpha * multiply(left, right), as operations that have rules."""
    left, right = names.split()

    def body(input: Tensor, *operands: Tensor, beta: Any = 1, alpha: Any = 1, **named: Any) -> Any:
        factors = [*operands, *(named[name] for name in (left, right)[len(operands) :])]
        product = multiply(*factors)
        product = product if alpha == 1 else product * alpha
        return product + (input if beta == 1 else input * beta)

    return body


def _addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    product = tensor1 * tensor2
    return input + (product if value == 1 else product * value)


def _addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
    quotient = tensor1 / tensor2
    return input + (quotient if value == 1 else quotient * value)


def _lerp(input: Tensor, end: Tensor, weight: Any) -> Tensor:
    return input + (end - input) * weight


def _choose(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    return torch.where(condition, self, other)


def _linear_dynamic(x: Tensor, packed: Any, reduce_range: bool = False) -> Tensor:
    """A linear layer in int8 (torch.ao), which has no gradient of its own.

    Relevance passes the layer with its weights in floats; the rounding is a constant.
    """
    with torch._C.DisableTorchFunction():
        exact = torch.ops.quantized.linear_dynamic(x.detach(), packed, reduce_range)
        weight, bias = packed.unpack()
        weight = weight.dequantize().to(x.dtype)
    output = F.linear(x, weight, bias)
    return output + (exact - output.detach())


# Operations without a Python body that combine others.
_DECOMPOSITIONS: dict[Function, Function] = {
    **dict.fromkeys((torch.baddbmm, Tensor.baddbmm), _add_product(torch.bmm, "batch1 batch2")),
    **dict.fromkeys((torch.addcmul, Tensor.addcmul), _addcmul),
    **dict.fromkeys((torch.addcdiv, Tensor.addcdiv), _addcdiv),
    **dict.fromkeys((torch.lerp, Tensor.lerp), _lerp),
    Tensor.where: _choose,
    mixing_parameter: lambda value: value,
    Tensor.__rmatmul__: lambda right, left: torch.matmul(left, right),
}


def _never(*_: object) -> bool:
    return False


def _glu(input: Tensor, dim: int = -1) -> Tensor:
    value, gate = input.chunk(2, dim)
    return value * gate.sigmoid()


_DECOMPOSITIONS[torch.nn.functional.glu] = _glu
