"""A scope of the whole process that several threads can be in at once.

The first thread that enters changes the process, the last one that leaves restores it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from whyformer.models.fork_safe import fork_safe
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
        self._lock = fork_safe(threading.Lock())
        self._inside: list[object] = []
        self._restore: Callable[[], None] | None = None

    @contextmanager
    def __call__(self) -> Iterator[None]:
        member = object()
        with Change(partial(self._leave, member)):
            self._enter(member)
            yield

    def _enter(self, member: object) -> None:
        with self._lock:
            is_first = not self._inside
            self._inside.append(member)
            if is_first:
                if self._restore is None:  # else an interrupt cut off the last one that left
                    self._restore = self._save()
                self._change()

    def _leave(self, member: object) -> None:
        with self._lock:
            if member in self._inside:
                self._inside.remove(member)
            if not self._inside and self._restore is not None:
                self._restore()
                self._restore = None
