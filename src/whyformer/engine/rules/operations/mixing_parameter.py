"""An operation that marks what decides how a recurrence mixes tokens."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary


def mixing_parameter(value: Any) -> Any:
    """The value itself. Torch function modes see it as an operation, so that it can have a rule."""
    if isinstance(value, Tensor) and has_torch_function_unary(value):
        return handle_torch_function(mixing_parameter, (value,), value)
    return value
