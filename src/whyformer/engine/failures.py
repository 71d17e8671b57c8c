"""Errors of the model's own code, turned into errors that say what ran and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from whyformer.errors import ModelError
from whyformer.inputs.sequence import narrow_to_module


def first_line(error: BaseException) -> str:
    """Return the type of an error and the first line of its message."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else 'no message'}"


def forward_failure(
    module: nn.Module, arguments: Mapping[str, Any], error: Exception
) -> ModelError:
    """Return the error for a forward pass that failed.

    The model runs once more without whyformer, to tell a mistake in the inputs from one of ours.
    """
    name = type(module).__name__
    try:
        with torch.no_grad():
            module(**narrow_to_module(arguments, module))
    except Exception:
        return ModelError(
            f"{name} failed on these inputs with {first_line(error)}",
            argument="inputs",
            remedy="The model fails on them without whyformer too: check that model(**inputs) runs",
        )
    return ModelError(
        f"{name} runs on these inputs, but not while whyformer follows its operations. It failed"
        f" with {first_line(error)}",
        argument="model",
        remedy="This is a fault of whyformer: please report it, with the error above as its cause",
    )


def backward_failure(error: RuntimeError) -> ModelError:
    """Return the error for a backward pass that torch refused."""
    if "modified by an inplace operation" in str(error):
        return ModelError(
            "the model overwrites a tensor that its gradient needs, so torch cannot compute the"
            f" gradient ({first_line(error)})",
            argument="method",
            remedy="Write that operation out of place (x = x + y instead of x += y), or use a"
            " method without gradients, such as 'occlusion'",
        )
    return ModelError(
        f"the backward pass through the model failed with {first_line(error)}",
        argument="method",
        remedy="Use a method without gradients, such as 'occlusion' or 'rollout'",
    )
