"""The plain forward pass: what the model computes when nobody looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.run import Run
from whyformer.engine.scope import add_hooks
from whyformer.inputs.sequence import narrow_to_module
from whyformer.models.undo import keep_random_state
from whyformer.targets.resolve import Goal, resolve


def plain_value(run: Run, goal: Goal, seed: int) -> tuple[Tensor, float]:
    """Return the value that `goal` explains, (batch,), and the largest number in the output.

    The model runs without rules, without a graph and not compiled; it must be borrowed
    (`scope.borrow_model`). `seed` is for models that draw random numbers.
    """
    outputs: list[Any] = []
    hooks: list[Any] = []
    if run.family is not None and run.family.output_module:
        part = run.module.get_submodule(run.family.output_module)
        hooks.append((part, "after", lambda owner, args, output: outputs.append(output)))
    with torch.no_grad(), keep_random_state(), add_hooks(hooks):
        torch.default_generator.manual_seed(seed)
        outputs.insert(0, run.module(**narrow_to_module(run.batch.arguments, run.module)))
        value = resolve(goal.target, outputs[-1], run.module, run.batch).value
    largest = max((_largest(tensor) for tensor in _tensors(outputs[-1])), default=0.0)
    return value, largest


def _tensors(output: Any) -> Iterator[Tensor]:
    """The floating tensors of an output; those inside of its parts are not read."""
    parts = output.values() if isinstance(output, Mapping) else output
    for part in parts if isinstance(output, Mapping | tuple | list) else (output,):
        if isinstance(part, Tensor) and part.is_floating_point():
            yield part


def _largest(tensor: Tensor) -> float:
    """The largest finite size of a number in the tensor."""
    sizes = tensor.detach().abs().nan_to_num(0, 0, 0)
    return float(sizes.max()) if sizes.numel() else 0.0
