"""Tags on tensors, so that rules can treat several operations as one.

An attention map is a softmax that later multiplies values; a gate is an activation that later
multiplies another tensor. The tag travels from the first operation to the one that decides.
It is an attribute of the tensor: a table keyed by `id` would go wrong when ids are reused.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

ATTENTION = "attention"  # a softmax, which may turn out to be an attention map
GATE = "gate"  # an activation, which may turn out to multiply something
SQUASHED = "squashed"  # tanh, sigmoid, ...: x * tanh(x) is one activation
STATISTIC = "statistic"  # the divisor of a norm
STALE = "stale"  # overwritten by the model; its new value is another tensor
PIXELS = "pixels"  # an image whose pixels are tracked
LEAF = "leaf"  # a leaf that a pass made: token states or a recorded attention map
_ATTRIBUTE = "_whyformer_tag"


def add_tag(tensor: Tensor, kind: str) -> Tensor:
    """The same tensor, with the tag; a tensor has at most one."""
    setattr(tensor, _ATTRIBUTE, kind)
    return tensor


def has_tag(value: Any, kind: str) -> bool:
    """Whether the value is a tensor with this tag."""
    return getattr(value, _ATTRIBUTE, None) == kind


def is_own_leaf(tensor: Tensor) -> bool:
    """Whether a pass made this leaf; other leaves are parameters."""
    return getattr(tensor, _ATTRIBUTE, None) in (LEAF, PIXELS)


def copy_tag(source: Any, result: Any) -> Any:
    """The result, with the source's tag; STALE is not copied, since the result is a new value."""
    kind = getattr(source, _ATTRIBUTE, None)
    if kind not in (None, STALE) and isinstance(result, Tensor):
        add_tag(result, kind)
    return result
