"""Changes of models, of torch and of the process that are undone also after an interrupt.

Ctrl-C may come at any moment, also while a scope restores what it changed. So each change is noted
in its thread before it is made, together with what undoes it. The scope undoes it at its end. If an
interrupt cuts that off, the note is still there: the function around (`undo_leftovers`) undoes it,
or at the latest the next explanation in that thread.
"""

from __future__ import annotations

import functools
import os
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ParamSpec, TypeVar

import torch
from torch.overrides import TorchFunctionMode

from whyformer.models import fork_safe  # noqa: F401 - its locks are renewed first
from whyformer.models.torch_state import TorchState, drop_mode

P = ParamSpec("P")
R = TypeVar("R")


class _Notes(threading.local):
    """What this thread has changed and not yet undone, in order."""

    def __init__(self) -> None:
        self.changes: list[Change] = []


_this_thread = _Notes()
_of_all_threads: dict[Change, None] = {}


class Change:
    """A scope for one change, made inside of it.

    `undo` may run when the change was not made, was made in part, or was undone before.
    """

    def __init__(self, undo: Callable[[], None], thread_only: bool = False) -> None:
        """Prepare the scope.

        Args:
            undo: Undoes the change.
            thread_only: Whether the change is one of this thread's state alone.
        """
        self._undo = undo
        self.thread_only = thread_only
        self._notes = _this_thread.changes
        self.thread = threading.get_ident()

    def __enter__(self) -> Change:
        self._notes.append(self)
        _of_all_threads[self] = None
        return self

    def __exit__(self, *error: object) -> None:
        self.undo()

    def undo(self) -> None:
        """Undo the change, unless that is done; another thread's state is left alone."""
        if self in self._notes and threading.get_ident() == self.thread:
            self._undo()
            _of_all_threads.pop(self, None)
            self._notes.remove(self)


def _undo_other_threads() -> None:
    """Undo in a forked child what threads changed that do not exist there."""
    for change in reversed([*_of_all_threads]):
        if change.thread != threading.get_ident():
            if not change.thread_only:
                change._undo()
            del _of_all_threads[change]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_undo_other_threads)


def noted_changes() -> int:
    """Return how many changes this thread has made and not undone."""
    return len(_this_thread.changes)


def undo_changes(above: int = 0) -> None:
    """Undo this thread's changes, the last one first, until `above` are left."""
    changes = _this_thread.changes
    while len(changes) > above:
        changes[-1].undo()


def undo_leftovers(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function: if it ends in an error, what its scopes could not undo is undone."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        above, state = noted_changes(), TorchState("cpu")
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            is_interrupt = not isinstance(error, Exception)
            if is_interrupt or noted_changes() > above:
                _end_scopes(error)
                undo_changes(above)
                state.restore()  # torch's own scopes end late too
            raise

    return run


def _end_scopes(error: BaseException) -> None:
    """End the scopes that an interrupt cut off: the error's frames keep them, and their locks."""
    current: BaseException | None = error
    while current is not None:
        traceback.clear_frames(current.__traceback__)
        current = current.__context__


@contextmanager
def use_mode(mode: TorchFunctionMode) -> Iterator[None]:
    """A scope in which torch functions reach the mode; for generators, whose end may come late."""
    with Change(partial(drop_mode, mode)):
        mode.__enter__()
        yield


@contextmanager
def keep_random_state(*devices: torch.device) -> Iterator[None]:
    """A scope that may draw random numbers; torch's generators are restored afterwards.

    Args:
        *devices: CUDA devices whose generators are restored too.
    """
    state = torch.get_rng_state()
    others = [(device, torch.cuda.get_rng_state(device)) for device in devices]

    def restore() -> None:
        torch.set_rng_state(state)
        for device, other in others:
            torch.cuda.set_rng_state(other, device)

    with Change(restore):
        yield
