"""A scope of the whole process that several threads can be in at once.

The first thread that enters changes the process, the last one that leaves restores it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager


class SharedScope:
    """A scope of the whole process that several threads can be in at once."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._entered = 0
        self._scope: AbstractContextManager[None] | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with self._lock:
            if self._entered == 0:
                scope = self._make()
                scope.__enter__()
                self._scope = scope
            self._entered += 1
        try:
            yield
        finally:
            with self._lock:
                self._entered -= 1
                if self._entered == 0 and self._scope is not None:
                    self._scope.__exit__(None, None, None)

    def _renew_lock(self) -> None:
        """Forget the lock after a fork: a thread that held it does not exist in the child."""
        self._lock = threading.Lock()
