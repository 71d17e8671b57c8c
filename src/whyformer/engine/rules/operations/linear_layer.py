"""Linear layers with constant weights, whose backward pass is ours where that is better.

It is for weights in half precision under float32 states: torch would keep a float32 copy of every
weight for the backward pass, twice the size of the model. Here the copy is made when it is needed.
And it is where `matrix_product` multiplies faster than torch's own backward pass.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.operations.arguments import bind
from whyformer.engine.rules.operations.matrix_product import (
    multiply,
    multiply_by_onednn,
    prefers_onednn,
)
from whyformer.engine.rules.operations.names import Function
from whyformer.engine.rules.operations.own_function import apply_own
from whyformer.engine.rules.operations.stabilise import HALF, wide

_SINGLE_AND_DOUBLE = {torch.float32, torch.float64}


def make_double(
    x: Tensor, weight: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return the arguments of F.linear in float64, if some are float64 and some float32.

    A model in float64 may cast its states and weights to float32, and whyformer keeps the states.
    """
    if x.dtype == weight.dtype or {x.dtype, weight.dtype} != _SINGLE_AND_DOUBLE:
        return x, weight, bias
    return x.double(), weight.double(), None if bias is None else bias.double()


def run_linear(function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Return `function(*args, **kwargs)`, for F.linear also if only the weight is narrow."""
    if function is not F.linear:
        return function(*args, **kwargs)
    x, weight, bias = args if len(args) == 3 else bind("input weight bias", args, kwargs)
    if x.dtype is not weight.dtype:
        return _run_mixed(x, weight, bias)
    return _run_constant(function, (x, weight, bias), x, weight, bias)


def _run_constant(
    function: Function, args: tuple, x: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    """function(*args), a linear layer of x with a weight (out, in); by our backward if faster."""
    constant = x.requires_grad and not weight.requires_grad
    if not constant or (bias is not None and bias.requires_grad) or not prefers_onednn(x, weight):
        return function(*args)
    output: Tensor = apply_own(_ConstantWeight, x, weight, function, args, multiply_by_onednn)
    return output


def run_addmm(function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Return `function(*args, **kwargs)`, the linear layer of GPT-2: bias + x @ weight."""
    if kwargs or len(args) != 3 or args[2].dim() != 2:
        return function(*args, **kwargs)
    bias, x, weight = args
    return _run_constant(function, args, x, weight.t(), bias)


def plain_linear(ledger: Any, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """F.linear as it is: the rule of tables that have none of their own."""
    return run_linear(function, args, kwargs)


def plain_addmm(ledger: Any, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """torch.addmm as it is, for the same tables."""
    return run_addmm(function, args, kwargs)


def _run_mixed(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """F.linear on states and weights of two precisions."""
    if {x.dtype, weight.dtype} == _SINGLE_AND_DOUBLE:
        return F.linear(*make_double(x, weight, bias))
    if weight.dtype not in HALF or x.dtype in HALF:
        return F.linear(x, weight, bias)
    wide_args = x, wide(weight), None if bias is None else wide(bias)
    output: Tensor = apply_own(_ConstantWeight, x, weight, F.linear, wide_args, _multiply_wide)
    return output


def _multiply_wide(rows: Tensor, matrix: Tensor) -> Tensor:
    return multiply(rows, wide(matrix))


class _ConstantWeight(AutogradFunction):
    """function(*args); its backward is multiply(gradient, weight).

    The backward calls `bias_notes` with the gradient of the output.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        function: Function,
        args: tuple,
        multiply: Callable[[Tensor, Tensor], Tensor],
    ) -> Tensor:
        ctx.save_for_backward(weight)
        ctx.multiply, ctx.bias_notes = multiply, []
        output: Tensor = function(*args)
        # No view: torch refuses to write into one that a function of ours returns.
        return output if output._base is None else output.data

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        (weight,) = ctx.saved_tensors
        for note in ctx.bias_notes:
            note(gradient)
        return ctx.multiply(gradient, weight), None, None, None, None
