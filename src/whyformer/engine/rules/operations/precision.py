"""Double precision kept double: models cast norms and softmaxes to float32 to be safe in half.

For a float64 model that cast is a loss, and it would be the largest error of an explanation.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.operations.names import SOFTMAX, Function, torch_functions


def _is_loss(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.float64


def to(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """x.to(...), except that float64 is not narrowed to float32."""
    if _is_loss(args[0]):
        args = tuple(torch.float64 if a is torch.float32 else a for a in args)
        kwargs = {k: torch.float64 if v is torch.float32 else v for k, v in kwargs.items()}
    return tags.copy_tag(args[0], function(*args, **kwargs))


def float_(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """x.float(), except that float64 stays as it is."""
    return args[0] if _is_loss(args[0]) else tags.copy_tag(args[0], function(*args, **kwargs))


TABLE: dict[Function, Any] = {
    **dict.fromkeys((Tensor.to, Tensor.type), to),
    Tensor.float: float_,
}
DTYPE_ARGUMENT = SOFTMAX | torch_functions("log_softmax")
