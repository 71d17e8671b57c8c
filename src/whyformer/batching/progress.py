"""Progress of long work, as values: a generator yields them, and its caller shows them.

A single explanation is no generator. Its long loops call `report_step`, which does nothing unless
a caller above asked for it with `report_steps_to`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Progress:
    """How far a piece of work has come.

    Args:
        doing: What is being done, as text for the user.
        done: How many steps are finished.
        total: How many steps there are; 0 if this is not yet known.
        part: The larger piece of work that these steps belong to, if there are several.
    """

    doing: str
    done: int
    total: int
    part: str = ""


_listener: ContextVar[Callable[[Progress], None] | None] = ContextVar("listener", default=None)


@contextmanager
def report_steps_to(listener: Callable[[Progress], None]) -> Iterator[None]:
    """Call the listener for every step that is reported in this scope, in this thread."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def report_step(doing: str, done: int, total: int) -> None:
    """Say that a step of a long explanation is done; see `Progress` for the arguments."""
    listener = _listener.get()
    if listener is not None and total > 1:
        listener(Progress(doing, done, total))


def finish(events: Iterable[Progress | Result]) -> Result:
    """Return the last event, which is the result; the progress before it is not shown."""
    *_, result = events
    assert not isinstance(result, Progress)
    return result


def without_progress(
    run: Callable[Arguments, Iterable[Progress | Result]], name: str
) -> Callable[Arguments, Result]:
    """Return a function called `name` with the same arguments that returns the result alone."""

    @wraps(run)
    def run_to_end(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        return finish(run(*args, **kwargs))

    run_to_end.__name__ = run_to_end.__qualname__ = name
    return run_to_end
