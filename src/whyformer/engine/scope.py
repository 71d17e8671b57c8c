"""A model on loan: evaluation mode, hooks and locks, all undone whatever happens inside."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from whyformer.errors import NestedCaptureError

_locks: weakref.WeakKeyDictionary[nn.Module, threading.Lock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()
_here = threading.local()


@contextmanager
def borrow_model(module: nn.Module) -> Iterator[None]:
    """The model in evaluation mode with gradients on; as it was found afterwards.

    Threads that want the same model wait for each other. An explanation inside an explanation
    would run under the outer one's rules, so it is refused.
    """
    if getattr(_here, "busy", False):
        raise NestedCaptureError(
            "explain() was called while another explanation runs in this thread (from a hook, a"
            " target callable or the model's forward). Finish the outer one first, or use another"
            " thread."
        )
    with _locks_guard:
        lock = _locks.setdefault(module, threading.Lock())
    with lock:
        _here.busy = True
        training = [m for m in module.modules() if m.training]
        try:
            for m in training:
                m.training = False
            with torch.inference_mode(False), torch.enable_grad():
                yield
        finally:
            for m in training:
                m.training = True
            _here.busy = False


@contextmanager
def add_hooks(hooks: list[tuple[nn.Module, str, Any]]) -> Iterator[None]:
    """Forward hooks ("before" or "after" a module) that fire in this thread only, then go."""
    owner = threading.get_ident()

    def mine(hook: Any) -> Any:
        def call(*arguments: Any) -> Any:
            return hook(*arguments) if threading.get_ident() == owner else None

        return call

    handles = []
    try:
        for module, when, hook in hooks:
            if when == "before":
                handles.append(module.register_forward_pre_hook(mine(hook), with_kwargs=True))
            else:
                handles.append(module.register_forward_hook(mine(hook)))
        yield
    finally:
        for handle in handles:
            handle.remove()
