"""A torch mode that can stop a job between any two torch operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode


class JobStopped(BaseException):
    """The job was cancelled or exceeded its time limit.

    A BaseException, so that no `except Exception` treats it as an error of the model.
    """


class InterruptMode(TorchFunctionMode):
    """Raises `JobStopped` at the next torch operation once `should_stop()` is true.

    It stops a method in the middle, in the method's own thread, so that the model is restored as
    after any error.
    """

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        super().__init__()
        self._should_stop = should_stop

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self._should_stop():
            raise JobStopped
        return function(*args, **(kwargs or {}))
