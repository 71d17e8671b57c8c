"""Rules that keep a float64 model in float64.

Many models cast norms and softmaxes to float32, to be safe in half precision. In a float64 model
that cast loses digits, and it would be the largest error of an explanation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.in_place import is_named_in_place
from whyformer.engine.rules.operations.names import (
    ADD_INTO,
    CONVOLUTION,
    MATMUL,
    SOFTMAX,
    Function,
    RuleTable,
    torch_functions,
)


def keep_double(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """x.to(...) or x.type(...), without narrowing float64 to float32."""
    if _is_double(args[0]):
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        kwargs = keep_double_dtype(kwargs)
    return tags.copy_tag(args[0], function(*args, **kwargs))


def keep_double_dtype(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name, with float64 for float32."""
    return {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}


def skip_float(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """x.float(), or x itself in float64."""
    return args[0] if _is_double(args[0]) else tags.copy_tag(args[0], function(*args, **kwargs))


def widen_mixed(args: tuple, kwargs: dict[str, Any]) -> tuple[tuple, dict[str, Any]]:
    """The arguments in float64 if they mix it with float32.

    Some came from a cast that was skipped, others from integers or a default dtype.
    """
    if not any(map(_is_double, (*args, *kwargs.values()))):
        return args, kwargs
    return tuple(map(_widen, args)), {key: _widen(value) for key, value in kwargs.items()}


def _widen(value: Any) -> Any:
    return value.double() if _is_single(value) else value


def match_target(args: tuple) -> tuple:
    """The arguments of a call that writes into the first one, in the precision of that one."""
    target, *others = args
    if not (_is_single(target) or _is_double(target)):
        return args
    pair = (torch.float32, torch.float64)
    return (
        target,
        *(
            tags.copy_tag(a, a.to(target.dtype))
            if isinstance(a, Tensor) and a.dtype in pair and a.dtype != target.dtype
            else a
            for a in others
        ),
    )


def _is_single(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float32


def _is_double(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float64


TABLE: RuleTable = {
    **dict.fromkeys((Tensor.to, Tensor.type), keep_double),
    Tensor.float: skip_float,
}
# Functions that cast by their argument `dtype=`, or make a tensor to add up in.
DTYPE_ARGUMENT = SOFTMAX | torch_functions(
    "log_softmax zeros zeros_like new_zeros empty empty_like new_empty ones ones_like new_ones full"
    " full_like new_full sum mean cumsum prod"
)
_ONE_PRECISION = (
    MATMUL
    | CONVOLUTION
    | ADD_INTO
    | torch_functions(
        "linear grid_sampler addmm addbmm baddbmm index_copy index_put scatter scatter_reduce"
    )
)
# Functions that refuse tensors of two precisions, and those that write into one of them.
INTO_ONE_PRECISION = frozenset(
    function for function in _ONE_PRECISION if is_named_in_place(function)
) | {Tensor.__setitem__}
ONE_PRECISION = _ONE_PRECISION - INTO_ONE_PRECISION
