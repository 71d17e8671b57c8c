"""Silence transformers: in a scope, or for the rest of the process.

Log levels, progress bars and warning filters belong to the whole process. A scope may be open in
several threads at once: the first thread that enters silences, the last one that leaves restores.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

# from_pretrained changes global torch state: one load at a time.
_loading = threading.RLock()


class _SharedScope:
    """A scope of the whole process that several threads can be in at once."""

    def __init__(self, make: Callable[[], AbstractContextManager[None]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._entered = 0
        self._scope: AbstractContextManager[None] | None = None

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


@contextmanager
def _without_logs() -> Iterator[None]:
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    # Setting a level empties the caches of all loggers, even if it is the same level.
    loud = verbosity != transformers_logging.ERROR
    if loud:
        transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if loud:
            transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_logs = _SharedScope(_without_logs)
_warnings = _SharedScope(_without_warnings)


def quiet_transformers() -> AbstractContextManager[None]:
    """Return a scope without log lines and progress bars of transformers."""
    return _logs()


def quiet_warnings() -> AbstractContextManager[None]:
    """Return a scope without Python warnings."""
    return _warnings()


@contextmanager
def quiet_loading() -> Iterator[None]:
    """Load models or processors in a scope without log lines, progress bars and warnings."""
    with _loading, quiet_warnings(), quiet_transformers():
        yield


def silence_transformers() -> None:
    """Switch off log lines and progress bars of transformers for the rest of the process."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when the hub is imported
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it logs every retry
