"""A scope of the whole process that several threads can be in at once.

The first thread that enters changes the process, the last one that leaves restores it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whyformer.models.undo import Change


class SharedScope:
    """A scope of the whole process that several threads can be in at once."""

    def __init__(self, save: Callable[[], Callable[[], None]], change: Callable[[], None]) -> None:
        """Describe the scope.

        Args:
            save: Reads the state of the process, and returns a function that restores it.
            change: Changes the process; it may run twice.
        """
        self._save = save
        self._change = change
        self._lock = threading.Lock()
        self._inside: list[Change] = []
        self._restore: Callable[[], None] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget_other_threads)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        member = Change(lambda: self._leave(member))
        with member:
            self._enter(member)
            yield

    def _enter(self, member: Change) -> None:
        with self._lock:
            is_first = not self._inside
            self._inside.append(member)
            if is_first:
                if self._restore is None:  # else an interrupt cut off the last one that left
                    self._restore = self._save()
                self._change()

    def _leave(self, member: Change) -> None:
        with self._lock:
            if member in self._inside:
                self._inside.remove(member)
            if not self._inside and self._restore is not None:
                self._restore()
                self._restore = None

    def _forget_other_threads(self) -> None:
        """Restore the process after a fork, if threads that are not in the child changed it."""
        self._lock = threading.Lock()
        here = threading.get_ident()
        others = [member for member in self._inside if member.thread != here]
        for member in others:
            self._leave(member)
