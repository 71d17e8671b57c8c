"""What goes into an engine and what comes out: tasks, chunks, results and failures."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from whyformer.errors import WhyformerError

ATTEMPTS = 3  # how often a chunk is tried
SHOWN = 2000  # characters of a traceback

Work = Callable[[Any], Any]


class Task(Protocol):
    """What the workers do. It is sent to each of them once."""

    def open(self) -> Work:
        """Load what the work needs; return the function from a payload to its result."""


@dataclass(frozen=True)
class Chunk:
    """A piece of work; its name is unique within a job."""

    name: str
    payload: Any


# In place of a chunk that depends on results which are not there yet: the engine asks again after
# the next result. Only while some chunk is still being computed.
LATER = Chunk("later", None)


@dataclass(frozen=True)
class Failure:
    """Why a chunk has no result.

    Args:
        error: The error as one line, with its type if it is not one of ours.
        attempts: How often it was tried.
        died: Whether the worker died, so that nothing is known about the reason.
        details: The end of the traceback.
    """

    error: str
    attempts: int = 1
    died: bool = False
    details: str = ""


@dataclass(frozen=True)
class Finished:
    """The result of one chunk, or why it has none."""

    name: str
    result: Any = None
    failure: Failure | None = None


def describe(error: BaseException) -> str:
    """Return an error as one line."""
    if isinstance(error, WhyformerError):
        return str(error)
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def attempt(work: Work, chunk: Chunk, attempts: int = ATTEMPTS) -> Finished:
    """Run a chunk; if it raises, try it again, and return the failure in the end."""
    for count in range(1, attempts + 1):
        try:
            return Finished(chunk.name, work(chunk.payload))
        except Exception as error:
            details = traceback.format_exc()[-SHOWN:]
            failure = Failure(describe(error), count, details=details)
            if isinstance(error, WhyformerError) and not isinstance(error, RuntimeError):
                break  # it says what is wrong with the input: the next attempt says the same
    return Finished(chunk.name, failure=failure)
