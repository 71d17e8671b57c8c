"""The tape: forward passes that are recorded once and read for one target after another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

MOST = 4  # recordings; no method needs more, and each holds the graph of a whole forward pass

Recorded = TypeVar("Recorded")


class Tape:
    """The recorded forward passes of one model on one batch, by the settings of each pass.

    Only the time that a pass takes depends on it: a pass that is not on the tape runs again.
    """

    def __init__(self) -> None:
        self._recorded: deque[tuple[tuple[Any, ...], Any]] = deque(maxlen=MOST)

    def record(self, settings: tuple[Any, ...], make: Callable[[], Recorded]) -> Recorded:
        """Return the recording with these settings; make it if there is none."""
        for known, found in self._recorded:
            if known == settings:
                recorded: Recorded = found
                return recorded
        recorded = make()
        self._recorded.append((settings, recorded))
        return recorded

    def clear(self) -> None:
        """Forget all recordings, which frees their graphs."""
        self._recorded.clear()
