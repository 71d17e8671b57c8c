"""Batch norm with the right gradient.

On the CPU and for one sample, torch 2.13 computes a wrong gradient of a batch norm in eval mode if
only one of its input and the gradient that arrives is contiguous. Here both are.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whyformer.engine.rules.operations.arguments import put_in_order
from whyformer.engine.rules.operations.names import Function


def run_batch_norm(function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Return `function(*args, **kwargs)`; its input and its gradient are in one piece of memory."""
    args, kwargs = put_in_order(function, args, kwargs)
    output: Tensor = function(args[0].contiguous(), *args[1:], **kwargs)
    if output.requires_grad:
        output.register_hook(Tensor.contiguous)
    return output


def plain_batch_norm(
    ledger: Any, function: Function, args: tuple, kwargs: dict[str, Any]
) -> Tensor:
    """F.batch_norm as it is: the rule of tables that have none of their own."""
    return run_batch_norm(function, args, kwargs)
