"""Keeps transformers silent while whyformer calls it, and gives it its voice back."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# Verbosity, progress bars and warning filters belong to the whole process: one at a time.
_lock = threading.RLock()


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """A scope without log lines or progress bars of transformers."""
    from transformers.utils import logging

    with _lock:
        verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        # A level that is set anew empties the caches of every logger, even if it is the same.
        loud = verbosity != logging.ERROR
        if loud:
            logging.set_verbosity_error()
        logging.disable_progress_bar()
        try:
            yield
        finally:
            if loud:
                logging.set_verbosity(verbosity)
            if bars:
                logging.enable_progress_bar()


@contextmanager
def quiet_loading() -> Iterator[None]:
    """The same for loading, which imports modules that warn about their own past."""
    with _lock, warnings.catch_warnings(), quiet_transformers():
        warnings.simplefilter("ignore")
        yield
