"""Linear layers on float32 states with weights in half precision.

A float32 copy of every weight would be kept for the backward pass, twice the size of the model.
Here the copy is made when it is needed, and only the weight itself is kept.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function as AutogradFunction

from whyformer.engine.rules.operations.arguments import bind
from whyformer.engine.rules.operations.names import Function
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
    if len(args) > 1 and args[0].dtype is args[1].dtype:
        return function(*args, **kwargs)
    x, weight, bias = bind("input weight bias", args, kwargs)
    if x.dtype != weight.dtype and {x.dtype, weight.dtype} == _SINGLE_AND_DOUBLE:
        return function(*make_double(x, weight, bias))
    if weight.dtype not in HALF or x.dtype in HALF:
        return function(*args, **kwargs)
    # The rows are put into shape outside: an output that is a view could not be written into.
    rows = _HalfWeightLinear.apply(x.reshape(-1, x.shape[-1]), weight, bias)
    return rows.reshape(*x.shape[:-1], weight.shape[0])


def plain_linear(ledger: Any, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """F.linear as it is: the rule of tables that have none of their own."""
    return run_linear(function, args, kwargs)


class _HalfWeightLinear(AutogradFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(weight)
        return F.linear(x, wide(weight), None if bias is None else wide(bias))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (weight,) = ctx.saved_tensors
        return gradient @ wide(weight), None, None
