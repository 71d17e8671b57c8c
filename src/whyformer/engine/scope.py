"""Borrow a model: evaluation mode, hooks and a lock, all undone afterwards, also on errors."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from whyformer.errors import NestedCaptureError
from whyformer.models.parts import modules_of
from whyformer.models.plain_execution import Execution, plain_execution

_locks: weakref.WeakKeyDictionary[nn.Module, threading.Lock] = weakref.WeakKeyDictionary()
_locks_guard = threading.Lock()
_this_thread = threading.local()


@contextmanager
def borrow_model(module: nn.Module) -> Iterator[Execution]:
    """Put the model in evaluation mode with gradients on, and restore it afterwards.

    Autocast, compiled code and checkpoints are ignored; the execution that comes back says so.
    Threads that use the same model wait for each other. An explanation inside another one would
    run under the outer one's rules, so it is refused.
    """
    if getattr(_this_thread, "busy", False):
        raise NestedCaptureError(
            "explain() was called inside another explanation in the same thread: from a hook, a"
            " target callable or the model's forward",
            remedy="Finish the outer one first, or use another thread",
        )
    with _locks_guard:
        lock = _locks.setdefault(module, threading.Lock())
    with lock:
        _this_thread.busy = True
        training = [m for m in modules_of(module) if m.training]
        try:
            for m in training:
                m.training = False
            with torch.inference_mode(False), torch.enable_grad(), plain_execution(module) as plain:
                yield plain
        finally:
            for m in training:
                m.training = True
            _this_thread.busy = False


def parts_with_hooks(module: nn.Module) -> dict[nn.Module, str]:
    """Return the name of each part that can have hooks: code compiled by torch.jit cannot."""
    return {
        part: name
        for name, part in module.named_modules()
        if not isinstance(part, torch.jit.ScriptModule)
    }


@contextmanager
def add_hooks(hooks: list[tuple[nn.Module, str, Any]]) -> Iterator[None]:
    """Add forward hooks ("before" or "after" a module) for this thread only, and remove them."""
    owner = threading.get_ident()

    def for_this_thread(hook: Any) -> Any:
        def call(*arguments: Any) -> Any:
            return hook(*arguments) if threading.get_ident() == owner else None

        return call

    handles = []
    try:
        for module, when, hook in hooks:
            if when == "before":
                handles.append(
                    module.register_forward_pre_hook(for_this_thread(hook), with_kwargs=True)
                )
            else:
                handles.append(module.register_forward_hook(for_this_thread(hook)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _renew_locks() -> None:
    """Forget the locks after a fork: the threads that held them do not exist in the child."""
    global _locks_guard, _this_thread
    _locks.clear()
    _locks_guard = threading.Lock()
    _this_thread = threading.local()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)
