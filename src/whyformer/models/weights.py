"""Check a model's weights for NaN and infinite numbers before it runs."""

from __future__ import annotations

import operator
import threading
from collections.abc import Mapping
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from whyformer.errors import ModelError
from whyformer.models.fork_safe import fork_safe
from whyformer.models.offload import offloaded_names
from whyformer.models.parts import modules_of
from whyformer.models.quantized import dequantise, is_quantised

# For each checked module its tensors, with their data pointers and version counters, and how many
# checks found them changed.
Seen = tuple[list[ref[Tensor]], list[int], list[int]]
_checked: WeakKeyDictionary[nn.Module, Seen] = WeakKeyDictionary()
_versions: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
_lock = fork_safe(threading.Lock())


def check_weights(module: nn.Module, again: bool = False) -> None:
    """Raise ModelError if a parameter is not finite, a buffer is NaN, or weights are missing.

    A module is checked again only after a tensor was replaced or written to. Writes through
    `.data` cannot be detected: pass `again=True` after a NaN in the output.
    """
    held = _tensors(module)
    with _lock:
        if not again and _is_unchanged(_checked.get(module), held):
            return
    tensors = {
        name: dequantise(tensor) if is_quantised(tensor) else tensor
        for name, tensor in (*module.named_parameters(), *module.named_buffers())
    }
    empty = [name for name, tensor in tensors.items() if tensor.is_meta]
    if empty:
        known = offloaded_names(module)
        empty = [name for name in empty if name not in known]
        tensors = {name: tensor for name, tensor in tensors.items() if not tensor.is_meta}
    if empty:
        raise ModelError(
            f"{type(module).__name__} has no weights yet: {_first_names(empty)} on the meta device",
            argument="model",
            remedy="Load the weights before explaining the model",
        )
    buffers = {name for name, _ in module.named_buffers()}
    suspects = _suspects(tensors)
    # A buffer may be infinite: causal masks are.
    broken = [
        name
        for name in suspects
        if (tensors[name].isnan() if name in buffers else ~tensors[name].isfinite()).any()
    ]
    if broken:
        raise ModelError(
            f"{type(module).__name__} has NaN or infinite weights in {_first_names(broken)}",
            argument="model",
            remedy="Load another checkpoint: training or conversion of this one went wrong",
        )
    if not any(tensor.is_inference() for tensor in held):  # their writes are not counted
        with _lock:
            _checked[module] = (
                [ref(t) for t in held],
                [_place(t) for t in held],
                [t._version for t in held],
            )
            _versions[module] = _versions.get(module, 0) + 1


def weights_version(module: nn.Module) -> int:
    """Return a number that differs after `check_weights` found the weights changed."""
    return _versions.get(module, 0)


def _tensors(module: nn.Module) -> list[Tensor]:
    """All parameters and buffers, in one fast walk: every call of explain does it."""
    held: list[Tensor | None] = []
    for part in modules_of(module):
        held += part._parameters.values()
        held += part._buffers.values()
    return [tensor for tensor in held if tensor is not None]


def _is_unchanged(seen: Seen | None, held: list[Tensor]) -> bool:
    """Whether these are the tensors that were checked, without a write since then."""
    if seen is None:
        return False
    known, places, versions = seen  # whole lists at once: every call of explain does this
    return (
        len(known) == len(held)
        and all(map(operator.is_, (one() for one in known), held))
        and places == [_place(tensor) for tensor in held]
        and versions == [tensor._version for tensor in held]
    )


def _place(tensor: Tensor) -> int:
    """The tensor's data pointer; a quantised weight has none."""
    return 0 if is_quantised(tensor) else tensor.data_ptr()


def _suspects(tensors: Mapping[str, Tensor]) -> list[str]:
    """Names of the floating tensors whose sum is not finite: broken or merely large."""
    by_device: dict[torch.device, list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            by_device.setdefault(tensor.device, []).append(name)
    suspects: list[str] = []
    with torch.no_grad():
        for names in by_device.values():
            sums = torch.stack([tensors[n].sum(dtype=torch.float32) for n in names])
            overflows = (~sums.isfinite()).tolist()
            suspects += [name for name, bad in zip(names, overflows, strict=True) if bad]
    return suspects


def _first_names(names: list[str]) -> str:
    """The first three names, and the number of others."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(repr(name) for name in names[:3]) + more
