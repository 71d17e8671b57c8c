"""Progress of long work, as values: a generator yields them, and its caller shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
