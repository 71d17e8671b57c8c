"""Borrow a model: evaluation mode, hooks and a lock, all undone afterwards, also on errors."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import nn

from whyformer.errors import NestedCaptureError
from whyformer.models.fork_safe import fork_safe
from whyformer.models.parts import modules_of
from whyformer.models.plain_execution import Execution, plain_execution
from whyformer.models.undo import Change, undo_changes

# Only the thread that holds an RLock can release it, so that a loan may be returned twice.
_locks: weakref.WeakKeyDictionary[nn.Module, threading.RLock] = weakref.WeakKeyDictionary()
_locks_guard = fork_safe(threading.Lock())
_this_thread = threading.local()


class _Loan:
    """A model that this thread has borrowed."""

    def __init__(self, module: nn.Module, lock: threading.RLock, borrower: FrameType) -> None:
        self.module = module
        self.lock = lock
        self.borrower: FrameType | None = borrower
        self.training: list[nn.Module] = []

    def take(self) -> None:
        """Wait for other threads, and put the model in evaluation mode."""
        self.lock.acquire()
        _this_thread.loan = self
        self.training = [part for part in modules_of(self.module) if part.training]
        for part in self.training:
            part.training = False

    def give_back(self) -> None:
        """Restore the model and let other threads have it; this may run twice."""
        for part in self.training:
            part.training = True
        self.borrower = None
        if getattr(_this_thread, "loan", None) is self:
            _this_thread.loan = None
        with suppress(RuntimeError):  # not taken, or given back before
            self.lock.release()

    @property
    def is_active(self) -> bool:
        """Whether the borrower still runs: interrupts can end it without giving back."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame is not self.borrower:
            frame = frame.f_back
        return frame is not None


@contextmanager
def borrow_model(module: nn.Module) -> Iterator[Execution]:
    """Put the model in evaluation mode with gradients on, and restore it afterwards.

    Autocast, compiled code and checkpoints are ignored; the execution that comes back says so.
    Threads that use the same model wait for each other. An explanation inside another one would
    run under the outer one's rules, so it is refused.
    """
    before: _Loan | None = getattr(_this_thread, "loan", None)
    if before is not None:
        if before.is_active:
            raise NestedCaptureError(
                "explain() was called inside another explanation in the same thread: from a hook,"
                " a target callable or the model's forward",
                remedy="Finish the outer one first, or use another thread",
            )
        undo_changes()
    with _locks_guard:
        lock = _locks.setdefault(module, threading.RLock())
    # The frame of the `with` statement; those below are this generator's and contextlib's.
    loan = _Loan(module, lock, sys._getframe(2))
    with Change(loan.give_back):
        loan.take()
        with plain_execution(module) as plain:
            yield plain


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

    own = [(module, when, for_this_thread(hook)) for module, when, hook in hooks]
    with Change(partial(_remove_hooks, own)):
        for module, when, hook in own:
            if when == "before":
                module.register_forward_pre_hook(hook, with_kwargs=True)
            else:
                module.register_forward_hook(hook)
        yield


def _remove_hooks(hooks: list[tuple[nn.Module, str, Any]]) -> None:
    """Remove these hooks where they are; torch's handles can be lost in an interrupt."""
    for module, when, hook in hooks:
        if when == "before":
            found, marks = module._forward_pre_hooks, [module._forward_pre_hooks_with_kwargs]
        else:
            found = module._forward_hooks
            marks = [module._forward_hooks_with_kwargs, module._forward_hooks_always_called]
        for key in [key for key, other in found.items() if other is hook]:
            for mark in marks:
                mark.pop(key, None)
            del found[key]


def _renew_threads() -> None:
    """Forget after a fork what belonged to the parent's threads: the child has none of them.

    OpenMP would wait for ever for the threads of earlier explanations, so torch uses one thread.
    """
    if _locks:
        torch.set_num_threads(1)
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_threads)
