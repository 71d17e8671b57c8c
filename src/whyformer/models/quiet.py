"""Silence transformers: in a scope, or for the rest of the process.

Log levels, progress bars and warning filters belong to the whole process. A scope may be open in
several threads at once: the first thread that enters silences, the last one that leaves restores.
"""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from whyformer.models.shared_scope import SharedScope

# from_pretrained changes global torch state: one load at a time.
_loading = threading.RLock()


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


_logs = SharedScope(_without_logs)
_warnings = SharedScope(_without_warnings)


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
