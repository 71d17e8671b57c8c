"""What torch keeps for each thread: gradients, inference mode, autocast, function modes."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_stack = torch._C  # the functions of the stack of function modes have no public names


class TorchState:
    """The state of torch in this thread, and the way back to it."""

    def __init__(self, *devices: str) -> None:
        """Read the state.

        Args:
            *devices: The types of devices whose autocast is read.
        """
        self._gradients = torch.is_grad_enabled()
        self._autocast = [
            (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
            for device in dict.fromkeys(devices)
            if torch.amp.is_autocast_available(device)
        ]
        self._modes = _function_modes()
        self._refusal = torch._C._autograd._saved_tensors_hooks_get_disabled_error_message()
        self._guard: Any = None

    def allow_graphs(self) -> None:
        """Switch gradients on, and leave inference mode."""
        if torch.is_inference_mode_enabled():
            self._guard = torch._C._InferenceMode(False)
        torch.set_grad_enabled(True)

    def restore(self) -> None:
        """Restore the state; this may run twice."""
        if self._guard is not None:
            self._guard.__exit__(None, None, None)
        torch.set_grad_enabled(self._gradients)
        for device, enabled, dtype in self._autocast:
            torch.set_autocast_enabled(device, enabled)
            torch.set_autocast_dtype(device, dtype)
        if _function_modes() != self._modes:
            while _stack._len_torch_function_stack():
                _stack._pop_torch_function_stack()
            for mode in self._modes:
                _stack._push_on_torch_function_stack(mode)
        if self._refusal is None:
            torch._C._autograd._saved_tensors_hooks_enable()
        else:
            torch._C._autograd._saved_tensors_hooks_disable(self._refusal)


def drop_mode(mode: TorchFunctionMode) -> None:
    """Take the mode and those above it off the stack, if it is there."""
    if mode in _function_modes():
        while _stack._pop_torch_function_stack() is not mode:
            pass


def _function_modes() -> list[Any]:
    return [
        _stack._get_function_stack_at(place) for place in range(_stack._len_torch_function_stack())
    ]
