"""A scope in which every torch operation first asks whether the job is still wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.overrides import TorchFunctionMode


class JobStopped(BaseException):
    """The job is not wanted any more.

    No Exception, so that nothing on the way takes it for a failure of a model and goes on.
    """


class InterruptMode(TorchFunctionMode):
    """Raises `JobStopped` between two operations once `stopped()` is true; changes nothing else.

    A method is one call. This is what stops it in the middle, in its own thread, so that the model
    is given back as it was found.
    """

    def __init__(self, stopped: Callable[[], bool]) -> None:
        super().__init__()
        self._stopped = stopped

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if self._stopped():
            raise JobStopped
        return function(*args, **(kwargs or {}))
