"""Weights that accelerate keeps on the CPU or on disk, and loads for each forward pass.

Between forward passes such weights are on the meta device. A hook on the module that owns them
loads them before its forward.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import nn


def execution_device(module: nn.Module) -> torch.device:
    """Return the device that offloaded weights run on; "meta" if no hook loads them."""
    for part in module.modules():
        for hook in _hooks_of(part):
            device = getattr(hook, "execution_device", None)
            if device is not None:
                return torch.device(f"cuda:{device}" if isinstance(device, int) else device)
    return torch.device("meta")


def offloaded_names(module: nn.Module) -> set[str]:
    """Return the names of the parameters and buffers that a hook loads before they are used."""
    return {
        f"{prefix}.{name}" if prefix else name
        for prefix, part in module.named_modules()
        if any(getattr(hook, "offload", False) for hook in _hooks_of(part))
        # The hook of a whole block loads what lies below it as well.
        for name, _ in (*part.named_parameters(), *part.named_buffers())
    }


def _hooks_of(part: nn.Module) -> Iterator[Any]:
    """The hooks that accelerate put on a module."""
    hook = getattr(part, "_hf_hook", None)
    yield from getattr(hook, "hooks", () if hook is None else (hook,))
