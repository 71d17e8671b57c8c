"""transformers is silent in a scope, in any number of threads, and logs again afterwards."""

from __future__ import annotations

import threading
import warnings

import pytest
from transformers.utils import logging

from whyformer.models.quiet import quiet_loading, quiet_transformers, quiet_warnings


def log_state() -> tuple[int, bool]:
    """The log level and whether there are progress bars."""
    return logging.get_verbosity(), logging.is_progress_bar_enabled()


def test_scopes_nest() -> None:
    before = log_state()
    with quiet_transformers(), quiet_loading():
        with quiet_transformers():
            assert log_state() == (logging.ERROR, False)
        assert log_state() == (logging.ERROR, False)
    assert log_state() == before


def test_an_error_ends_the_scope() -> None:
    before, filters = log_state(), list(warnings.filters)
    with pytest.raises(KeyError), quiet_loading():
        raise KeyError
    assert log_state() == before
    assert list(warnings.filters) == filters


def test_the_last_thread_restores() -> None:
    before, filters = log_state(), list(warnings.filters)
    entered, leave = threading.Event(), threading.Event()

    def stay() -> None:
        with quiet_transformers(), quiet_warnings():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=stay)
    with quiet_transformers(), quiet_warnings():
        other.start()
        assert entered.wait(10)
    assert log_state() == (logging.ERROR, False)
    warnings.warn("nobody hears this", UserWarning, stacklevel=1)
    leave.set()
    other.join()
    assert log_state() == before
    assert list(warnings.filters) == filters
