"""Models in half precision, computed in float32 while they are explained.

Relevance rules divide by sums that nearly cancel, and a backward pass adds up many small numbers:
in bfloat16 or float16 both lose their digits. The weights stay as they are. Every operation reads
them, and everything else that is half precision, as float32.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from whyformer.engine.rules.operations.in_place import is_in_place
from whyformer.engine.rules.operations.names import Function, torch_functions
from whyformer.engine.rules.operations.stabilise import HALF, wide
from whyformer.models.parts import modules_of
from whyformer.models.undo import use_mode

# They read a few rows of a large table: only the result is widened.
_LOOKUPS: frozenset[Function] = frozenset({F.embedding, torch.embedding, F.embedding_bag})
# Casts to half precision that take no dtype.
_NARROWING: frozenset[Function] = frozenset({Tensor.half, Tensor.bfloat16})
# Their result is new, with the dtype of a tensor that is only looked at.
_LIKE = torch_functions(
    "new_tensor new_zeros new_ones new_full new_empty zeros_like ones_like full_like empty_like"
    " rand_like randn_like"
)


def in_float32(parts: Iterable[nn.Module]) -> AbstractContextManager[Any]:
    """Return a scope that computes in float32 if some part of the model is in half precision.

    Enter it after the interception: the rules then see float32 only, but for the weights of linear
    layers (see `rules.operations.linear_layer`).
    """
    return use_mode(_HalfAsFloat32()) if _any_half(parts) else nullcontext()


def has_half_weights(module: nn.Module) -> bool:
    """Return whether some parameter of the model is in float16 or bfloat16."""
    return _any_half(modules_of(module))


def _any_half(parts: Iterable[nn.Module]) -> bool:
    weights = (weight for part in parts for weight in part._parameters.values())
    return not HALF.isdisjoint({weight.dtype for weight in weights if weight is not None})


class _HalfAsFloat32(TorchFunctionMode):
    """Hands every operation on with half-precision tensors and dtypes widened to float32."""

    def __torch_function__(
        self, func: Function, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func.__name__ == "__get__":
            return func(*args, **kwargs)
        if func in _LOOKUPS:
            return _widen(func(*args, **kwargs))
        if func in _NARROWING:
            return _widen(args[0])
        if func in _LIKE:
            return _widen(func(*args, **{key: _widen(value) for key, value in kwargs.items()}))
        # An in-place operation must write into the tensor itself, not into a wide copy.
        kept = 1 if is_in_place(func, args, kwargs) else 0
        if func is F.linear and len(args) > 1:
            return func(_widen(args[0]), args[1], *map(_widen, args[2:]), **_widen_all(kwargs))
        if func is F.linear:
            weight = kwargs.pop("weight")
            return func(*map(_widen, args), weight=weight, **_widen_all(kwargs))
        return func(*args[:kept], *map(_widen, args[kept:]), **_widen_all(kwargs))


def _widen_all(kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments, widened; `out` must stay the tensor that is written into."""
    return {key: value if key == "out" else _widen(value) for key, value in kwargs.items()}


def _widen(value: Any) -> Any:
    """The value with half-precision tensors and dtypes as float32, also inside lists."""
    if isinstance(value, Tensor):
        return wide(value)
    if isinstance(value, torch.dtype):
        return torch.float32 if value in HALF else value
    if type(value) in (tuple, list):
        return type(value)(map(_widen, value))
    return value
