"""A scope to use a tokenizer in, which leaves its settings as they were."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whyformer.models.fork_safe import fork_safe
from whyformer.models.quiet import quiet_transformers
from whyformer.models.undo import Change

# A fast tokenizer stores truncation and padding as state: one call at a time.
_lock = fork_safe(threading.RLock())


@contextmanager
def tokenizer_scope(tokenizer: Any) -> Iterator[None]:
    """Use a tokenizer without log lines; its truncation and padding are restored afterwards."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    side = getattr(tokenizer, "truncation_side", None)
    with _lock, quiet_transformers():
        truncation = getattr(backend, "truncation", None)
        padding = getattr(backend, "padding", None)

        def restore() -> None:
            if side is not None:
                tokenizer.truncation_side = side
            if backend is not None:
                _restore(backend, truncation, padding)

        with Change(restore):
            if side is not None:
                tokenizer.truncation_side = "right"
            yield


def _restore(backend: Any, truncation: Any, padding: Any) -> None:
    if backend.truncation != truncation:
        if truncation is None:
            backend.no_truncation()
        else:
            backend.enable_truncation(**truncation)
    if backend.padding != padding:
        if padding is None:
            backend.no_padding()
        else:
            backend.enable_padding(**padding)
