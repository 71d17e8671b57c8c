"""The backward passes: gradients, and relevance over the same graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.engine.rules.relevance.switch import Direction

Places = Mapping[str, Sequence[Tensor]]


def gradients_at(
    value: Tensor, places: Places, keep_graph: bool = False
) -> dict[str, list[Tensor]]:
    """The gradient of the summed value at each place, zeros where nothing arrives."""
    return _backward([value.sum()], None, places, keep_graph)


def relevances_at(
    value: Tensor,
    spoken: Sequence[tuple[Tensor, Tensor]],
    direction: Direction,
    places: Places,
) -> dict[str, list[Tensor]]:
    """The relevance at each place for what the model has spoken, to the share it has in the value.

    It starts as the value's gradient at the model's output: 1 at a class. What speaks against the
    value (the other side of a contrast) is followed on its own and subtracted: together they
    would start with a sum of nothing, and every normalisation would keep it so.
    """
    outputs = [at for at, _ in spoken] or [value]
    starts = [torch.ones_like(value)]
    if spoken:
        starts = gradients_at(value, {"read": [as_read for _, as_read in spoken]}, True)["read"]
    direction.turn()
    against = any(bool((start < 0).any()) for start in starts)
    total = _backward(outputs, [start.clamp(min=0) for start in starts], places, against)
    if against:
        other = _backward(outputs, [-start.clamp(max=0) for start in starts], places, False)
        total = {
            name: [a - b for a, b in zip(total[name], other[name], strict=True)] for name in total
        }
    return total


def _backward(
    outputs: Sequence[Tensor], starts: Sequence[Tensor] | None, places: Places, keep_graph: bool
) -> dict[str, list[Tensor]]:
    flat = [tensor for tensors in places.values() for tensor in tensors]
    arrived = iter(
        torch.autograd.grad(outputs, flat, starts, retain_graph=keep_graph, allow_unused=True)
        if flat
        else ()
    )
    return {
        name: [
            torch.zeros_like(tensor) if (there := next(arrived)) is None else there
            for tensor in tensors
        ]
        for name, tensors in places.items()
    }
