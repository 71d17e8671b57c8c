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
from functools import partial

from whyformer.models.fork_safe import fork_safe
from whyformer.models.shared_scope import SharedScope
from whyformer.models.undo import Change

# from_pretrained changes global torch state: one load at a time.
_loading = fork_safe(threading.RLock())


def _save_logs() -> Callable[[], None]:
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()

    def restore() -> None:
        # Setting a level empties the caches of all loggers, even if it is the same level.
        if verbosity != transformers_logging.get_verbosity():
            transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()

    return restore


def _silence_logs() -> None:
    from transformers.utils import logging as transformers_logging

    if transformers_logging.get_verbosity() != transformers_logging.ERROR:
        transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()


def _save_warnings() -> Callable[[], None]:
    scope = warnings.catch_warnings()
    scope.__enter__()  # no `with`: its end can run twice
    return partial(scope.__exit__, None, None, None)


def _ignore_warnings() -> None:
    warnings.simplefilter("ignore")


_logs = SharedScope(_save_logs, _silence_logs)
_warnings = SharedScope(_save_warnings, _ignore_warnings)


def quiet_transformers() -> AbstractContextManager[None]:
    """Return a scope without log lines and progress bars of transformers."""
    return _logs()


def quiet_warnings() -> AbstractContextManager[None]:
    """Return a scope without Python warnings."""
    return _warnings()


@contextmanager
def ignore_warnings(category: type[Warning]) -> Iterator[None]:
    """A scope without Python warnings of one category."""
    with Change(_save_warnings()):
        warnings.simplefilter("ignore", category)
        yield


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
