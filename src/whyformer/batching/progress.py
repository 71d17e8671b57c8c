"""Progress of long work, as values: a generator yields them, and its caller shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """How far a piece of work has come.

    Args:
        doing: What is being done, for people.
        done: How many steps are finished.
        total: How many steps there are; 0 if nobody knows yet.
    """

    doing: str
    done: int
    total: int


def finish(events: Iterable[Progress | Result]) -> Result:
    """Return the last event, which is the result; the progress before it is not shown."""
    *_, result = events
    assert not isinstance(result, Progress)
    return result
