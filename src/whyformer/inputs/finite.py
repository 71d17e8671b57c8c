"""Refuses NaN and infinite numbers, in weights and in inputs, before they spread everywhere."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from whyformer.errors import InputError, ModelError

# By module: every tensor it was checked with, where its numbers lay and how often written to.
Seen = list[tuple[ref[Tensor], int, int]]
_checked: WeakKeyDictionary[nn.Module, Seen] = WeakKeyDictionary()
_lock = threading.Lock()


def check_weights(module: nn.Module, again: bool = False) -> None:
    """Nothing; raises where a parameter is not finite, a buffer is NaN, or there are no weights.

    One sum per tensor finds trouble at the speed of memory, and only then is it looked at closely.
    A module is checked again when a tensor was replaced or written to; writes through `.data`
    leave no trace, so whoever meets a NaN later asks `again`.
    """
    held = _held(module)
    with _lock:
        if not again and _same(_checked.get(module), held):
            return
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
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
    if not any(tensor.is_inference() for tensor in held):  # torch does not count writes to those
        with _lock:
            _checked[module] = [(ref(t), t.data_ptr(), t._version) for t in held]


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


def _held(module: nn.Module) -> list[Tensor]:
    """Every parameter and buffer; one walk, as this is done in every call."""
    return [
        tensor
        for part in module.modules()
        for table in (part._parameters, part._buffers)
        for tensor in table.values()
        if tensor is not None
    ]


def _same(seen: Seen | None, held: list[Tensor]) -> bool:
    """Whether these are the very tensors that were checked, and nothing was written to them."""
    return (
        seen is not None
        and len(seen) == len(held)
        and all(
            known() is tensor and place == tensor.data_ptr() and version == tensor._version
            for (known, place, version), tensor in zip(seen, held, strict=True)
        )
    )


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
