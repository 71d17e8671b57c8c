"""Tags on tensors, so that rules can treat several operations as one.

An attention map is a softmax that later multiplies values; a gate is an activation that later
multiplies another tensor. The tag travels from the first operation to the one that decides.
It is an attribute of the tensor: a table keyed by `id` would go wrong when ids are reused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

ATTENTION = "attention"  # a softmax, which may turn out to be an attention map
WEIGHT = "weight"  # a sum of softmax weights, as routers of experts compute it; never a map
GATE = "gate"  # an activation, which may turn out to multiply something
SQUASHED = "squashed"  # tanh, sigmoid, ...: x * tanh(x) is one activation
STATISTIC = "statistic"  # the divisor of a norm
STALE = "stale"  # overwritten by the model; its new value is another tensor
PIXELS = "pixels"  # an image whose pixels are tracked
LEAF = "leaf"  # a leaf that a pass made: token states or a recorded attention map
_ATTRIBUTE = "_whyformer_tag"
_SEEN = "_whyformer_seen"


def add_tag(tensor: Tensor, kind: str) -> Tensor:
    """The same tensor, with the tag; a tensor has at most one."""
    setattr(tensor, _ATTRIBUTE, kind)
    return tensor


def has_tag(value: Any, kind: str) -> bool:
    """Whether the value is a tensor with this tag."""
    return getattr(value, _ATTRIBUTE, None) == kind


def tag_of(tensor: Tensor) -> str | None:
    """The tensor's tag, None if it has none."""
    kind: str | None = getattr(tensor, _ATTRIBUTE, None)
    return kind


def is_weight(value: Any) -> bool:
    """Whether the value is a tensor of softmax weights, or of sums of them."""
    return getattr(value, _ATTRIBUTE, None) in (ATTENTION, WEIGHT)


def tag_sum(parts: Sequence[Any], result: Any) -> Any:
    """The sum of the parts, tagged as a weight if all of them are softmax weights."""
    if isinstance(result, Tensor) and all(map(is_weight, parts)):
        add_tag(result, WEIGHT)
    return result


def is_own_leaf(tensor: Tensor) -> bool:
    """Whether a pass made this leaf; other leaves are parameters."""
    return getattr(tensor, _ATTRIBUTE, None) in (LEAF, PIXELS)


def copy_tag(source: Any, result: Any) -> Any:
    """The result, with the source's tag; STALE is not copied, since the result is a new value."""
    kind = getattr(source, _ATTRIBUTE, None)
    if kind not in (None, STALE) and isinstance(result, Tensor):
        add_tag(result, kind)
    return result


def copy_shared_tag(parts: Sequence[Any], result: Any) -> Any:
    """The result, with the tag that all of its parts have."""
    kinds = {getattr(part, _ATTRIBUTE, None) for part in parts}
    return copy_tag(parts[0], result) if len(kinds) == 1 else result


def is_seen(tensor: Tensor) -> bool:
    """Whether an operation that the interception ran returned this tensor, or wrote into it."""
    if hasattr(tensor, _SEEN):
        return True
    base = tensor._base
    return base is not None and hasattr(base, _SEEN)


def is_marked(value: Any) -> bool:
    """Whether the value is itself marked as returned by an operation, and still tracked."""
    return hasattr(value, _SEEN) and value.requires_grad


def hand_on(source: Tensor, result: Any) -> Any:
    """The result of an operation that moves the entries of a marked tensor: tagged and marked."""
    copy_tag(source, result)
    mark_seen(result)
    return result


def mark_seen(value: Any) -> None:
    """Mark a tracked tensor, or those in a tuple or list, as returned by an operation."""
    if isinstance(value, Tensor):
        if value.requires_grad:
            setattr(value, _SEEN, True)
    elif isinstance(value, (tuple, list)):
        for one in value:
            mark_seen(one)


def mark_written(tensor: Tensor) -> None:
    """Mark a tensor that the interception wrote into, and the one that it is a view of."""
    mark_seen(tensor)
    mark_seen(tensor._base)


def copy_tag_to_values(source: Any, result: Any) -> Any:
    """The result of topk, sort or max, whose values are entries of the source."""
    copy_tag(source, result if isinstance(result, Tensor) else result[0])
    return result


def replace_tag(tensor: Tensor, source: Any) -> None:
    """Give a tensor that was overwritten the tag of its new value."""
    setattr(tensor, _ATTRIBUTE, getattr(source, _ATTRIBUTE, None))


def tag_stale(tensor: Tensor) -> None:
    """Tag a tensor, and the one that it is a view of: an in-place call was run out of place."""
    for old in (tensor, tensor._base):
        if old is not None:
            add_tag(old, STALE)
