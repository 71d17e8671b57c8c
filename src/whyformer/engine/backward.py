"""The backward passes: gradients, and relevance over the same graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.engine.failures import backward_failure
from whyformer.engine.rules.relevance.switch import Direction
from whyformer.errors import WhyformerError

Places = Mapping[str, Sequence[Tensor]]


def gradients_at(
    value: Tensor, places: Places, keep_graph: bool = False
) -> dict[str, list[Tensor]]:
    """Return the gradient of the summed value at each place; zeros if no gradient reaches it."""
    return _backward([value.sum()], None, places, keep_graph)


def relevances_at(
    value: Tensor,
    output_pairs: Sequence[tuple[Tensor, Tensor]],
    direction: Direction,
    places: Places,
) -> dict[str, list[Tensor]]:
    """Return the relevance at each place, starting from the model's output.

    Args:
        value: The explained value, (batch,).
        output_pairs: (output tensor, alias that the target was read from) pairs.
        direction: Switches the graph from gradient to relevance.
        places: Tensors of the graph, by name.

    Relevance starts as the value's gradient at the output: 1 at a class. Negative starts (the
    other side of a contrast) are propagated separately and subtracted: together they would sum to
    0, and every normalising rule would keep that 0.
    """
    outputs = [output for output, _ in output_pairs] or [value]
    starts = [torch.ones_like(value)]
    if output_pairs:
        starts = gradients_at(value, {"read": [alias for _, alias in output_pairs]}, True)["read"]
    direction.turn()
    has_negative = any(bool((start < 0).any()) for start in starts)
    total = _backward(outputs, [start.clamp(min=0) for start in starts], places, has_negative)
    if has_negative:
        negative = _backward(outputs, [-start.clamp(max=0) for start in starts], places, False)
        total = {
            name: [a - b for a, b in zip(total[name], negative[name], strict=True)]
            for name in total
        }
    return total


def _backward(
    outputs: Sequence[Tensor], starts: Sequence[Tensor] | None, places: Places, keep_graph: bool
) -> dict[str, list[Tensor]]:
    """The gradient or relevance at each place; raise ModelError if torch cannot compute it."""
    flat = [tensor for tensors in places.values() for tensor in tensors]
    found: Sequence[Tensor | None] = ()
    if flat:
        try:
            found = torch.autograd.grad(
                outputs, flat, starts, retain_graph=keep_graph, allow_unused=True
            )
        except WhyformerError:
            raise
        except RuntimeError as error:
            raise backward_failure(error) from error
    arrived = iter(found)
    return {
        name: [
            torch.zeros_like(tensor) if (gradient := next(arrived)) is None else gradient
            for tensor in tensors
        ]
        for name, tensors in places.items()
    }
