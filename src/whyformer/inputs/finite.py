"""Refuses NaN and infinite numbers, in weights and in inputs, before they spread everywhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from whyformer.errors import InputError, ModelError

_checked: WeakKeyDictionary[nn.Module, tuple[Any, ...]] = WeakKeyDictionary()
_lock = threading.Lock()


def check_weights(module: nn.Module, again: bool = False) -> None:
    """Nothing; raises where a parameter is not finite, a buffer is NaN, or there are no weights.

    One sum per tensor finds trouble at the speed of memory, and only then is it looked at closely.
    A module is checked again when a tensor was replaced or written to; writes through `.data`
    leave no trace, so whoever meets a NaN later asks `again`.
    """
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    state = _state(tensors)
    with _lock:
        if not again and state is not None and _checked.get(module) == state:
            return
    empty = [name for name, tensor in tensors.items() if tensor.is_meta]
    if empty:
        raise ModelError(
            f"{type(module).__name__} has no weights yet: {_some(empty)} on the meta device;"
            " load its weights before explaining it"
        )
    buffers = {name for name, _ in module.named_buffers()}
    suspects = _suspects(tensors)
    # Infinite buffers are causal masks; an infinite weight is broken.
    broken = [
        name
        for name in suspects
        if (tensors[name].isnan() if name in buffers else ~tensors[name].isfinite()).any()
    ]
    if broken:
        raise ModelError(
            f"{type(module).__name__} has NaN or infinite weights in {_some(broken)};"
            " its training or its conversion went wrong: load another checkpoint"
        )
    if state is not None:
        with _lock:
            _checked[module] = state


def check_inputs(arguments: Mapping[str, Any]) -> None:
    """Nothing; raises where a floating input is NaN or infinite, additive masks apart."""
    for name, value in arguments.items():
        if not isinstance(value, Tensor) or not value.is_floating_point():
            continue
        bad = value.isnan() if "mask" in name else ~value.isfinite()
        if bad.any():
            raise InputError(
                f"'{name}' has {int(bad.sum())} NaN or infinite values of {value.numel()};"
                " replace or remove them"
            )


def _state(tensors: Mapping[str, Tensor]) -> tuple[Any, ...] | None:
    """What changes when a tensor is replaced or written to; None where torch does not track it."""
    if any(tensor.is_inference() for tensor in tensors.values()):
        return None
    return tuple((name, t.data_ptr(), t._version) for name, t in tensors.items())


def _suspects(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the floating tensors whose sum is not finite: broken, or merely very large."""
    by_device: dict[torch.device, list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            by_device.setdefault(tensor.device, []).append(name)
    suspects: list[str] = []
    with torch.no_grad():
        for names in by_device.values():
            sums = torch.stack([tensors[n].sum(dtype=torch.float32) for n in names])
            odd = (~sums.isfinite()).tolist()
            suspects += [name for name, strange in zip(names, odd, strict=True) if strange]
    return suspects


def _some(names: list[str]) -> str:
    """The first three names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(repr(name) for name in names[:3]) + more
