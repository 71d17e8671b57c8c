"""The arguments of a torch call, passed by position or by name."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.operations.names import (
    ADD,
    CONVOLUTION,
    DIVIDE,
    JOIN,
    MATMUL,
    MULTIPLY,
    SUBTRACT,
    Function,
)

_SECOND = "other|mat2|vec|tensor"  # torch has four names for the second operand
# Names of the leading arguments that rules read by position; by default the first is "input".
_LEADING: dict[Function, tuple[str, ...]] = {
    **dict.fromkeys(ADD | SUBTRACT | MULTIPLY | DIVIDE | MATMUL, ("input", _SECOND)),
    **dict.fromkeys(JOIN, ("tensors",)),
    **dict.fromkeys(CONVOLUTION | {F.linear}, ("input", "weight", "bias")),
    **dict.fromkeys(
        (torch.addmm, Tensor.addmm, torch.addbmm, Tensor.addbmm, torch.addmv, Tensor.addmv),
        ("input", "mat1|batch1|mat", "mat2|batch2|vec"),
    ),
    torch.where: ("condition", "input|self", "other"),
}


def put_in_order(
    function: Function, args: tuple, kwargs: dict[str, Any]
) -> tuple[tuple, dict[str, Any]]:
    """The same call, with the leading arguments by position although they were passed by name."""
    kwargs = dict(kwargs)
    for names in _LEADING.get(function, ("input",))[len(args) :]:
        name = next((name for name in names.split("|") if name in kwargs), None)
        if name is None:
            break
        args = (*args, kwargs.pop(name))
    return args, kwargs


def bind(names: str, args: tuple, kwargs: dict[str, Any], **defaults: Any) -> list[Any]:
    """The arguments in the order of `names`; a missing one is its default, or None."""
    order = names.split()
    values = defaults | dict(zip(order, args, strict=False)) | kwargs
    return [values.get(name) for name in order]


def two_operands(args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    """Both operands of a sum or product."""
    args, _ = put_in_order(torch.add, args, kwargs)
    return args[0], args[1]


def einsum_operands(args: tuple) -> tuple[str, tuple[Tensor, ...]]:
    """The equation and the operands, which einsum also accepts as one list."""
    operands = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
    return args[0], tuple(operands)
