"""Marks on tensors, so that several operations can act as one.

An attention map is a softmax that later multiplies values; a gate is an activation that later
multiplies something else. The mark travels from the first operation to the one that decides.
It sits on the tensor itself: a table keyed by `id` would go wrong as soon as ids are reused.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

ATTENTION = "attention"
GATE = "gate"  # an activation, which may turn out to multiply something
SQUASHED = "squashed"  # tanh and its like: what it multiplies is one activation with it
STATISTIC = "statistic"  # what a norm divides by
STALE = "stale"  # was written into; its new value is another tensor
PIXELS = "pixels"  # an image that is tracked itself
LEAF = "leaf"  # a leaf of ours, not a parameter: the token states, a recorded attention map
_SLOT = "_whyformer_mark"


def add_tag(tensor: Tensor, kind: str) -> Tensor:
    """The same tensor, marked."""
    setattr(tensor, _SLOT, kind)
    return tensor


def has_tag(value: Any, kind: str) -> bool:
    """Whether this is a tensor that carries the mark."""
    return getattr(value, _SLOT, None) == kind


def is_own_leaf(tensor: Tensor) -> bool:
    """Whether the capture tracks from this tensor, so that it is no parameter."""
    return getattr(tensor, _SLOT, None) in (LEAF, PIXELS)


def copy_tag(source: Any, result: Any) -> Any:
    """The result, with the mark of what it was made from; being stale is no mark of its value."""
    kind = getattr(source, _SLOT, None)
    if kind not in (None, STALE) and isinstance(result, Tensor):
        add_tag(result, kind)
    return result
