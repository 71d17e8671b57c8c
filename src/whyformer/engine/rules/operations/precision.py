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
from whyformer.engine.rules.operations.names import SOFTMAX, Function, torch_functions


def keep_double(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """x.to(...) or x.type(...), without narrowing float64 to float32."""
    if _is_double(args[0]):
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
    return tags.copy_tag(args[0], function(*args, **kwargs))


def skip_float(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """x.float(), or x itself in float64."""
    return args[0] if _is_double(args[0]) else tags.copy_tag(args[0], function(*args, **kwargs))


def _is_double(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float64


TABLE: dict[Function, Any] = {
    **dict.fromkeys((Tensor.to, Tensor.type), keep_double),
    Tensor.float: skip_float,
}
# Functions that cast by their argument `dtype=`.
DTYPE_ARGUMENT = SOFTMAX | torch_functions("log_softmax")
