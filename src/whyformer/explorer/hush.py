"""A scope without warnings that several threads can be in."""

from __future__ import annotations

import threading
import warnings
from typing import Any


class Hush:
    """A scope without warnings, for several threads: what they say is on the page already.

    Python's own scope is one for the whole process, so the first in opens it, the last out closes.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._scope: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._scope = warnings.catch_warnings()
                self._scope.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._scope.__exit__(None, None, None)


HUSH = Hush()
