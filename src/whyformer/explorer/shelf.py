"""The last few results, for the frame and for downloads; the oldest make room."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits
from whyformer.models.quiet import quiet_warnings


class Result:
    """One report: the page, the numbers, and a picture that is drawn when it is wanted."""

    def __init__(self, page: bytes, data: bytes, draw: Callable[[], bytes]) -> None:
        self.page, self.data = page, data
        self._draw = draw

    @cached_property
    def picture(self) -> bytes:
        """The report as a PNG file."""
        # A character that no font has gives a warning and is drawn as a box.
        with _DRAWING, quiet_warnings():
            return self._draw()

    @property
    def size(self) -> int:
        """Bytes that it holds; the numbers stand for the tensors behind the picture."""
        drawn = self.__dict__.get("picture", b"")
        return len(self.page) + 2 * len(self.data) + len(drawn)


class Shelf:
    """Results by a name that nobody can guess."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Result] = OrderedDict()

    def put(self, result: Result) -> str:
        """The name under which the result can be had for a while."""
        name = secrets.token_urlsafe(12)
        with self._lock:
            self._results[name] = result
            while len(self._results) > 1 and self._full:
                self._results.popitem(last=False)
        return name

    @property
    def _full(self) -> bool:
        size = sum(result.size for result in self._results.values())
        return len(self._results) > self._limits.results or size > self._limits.kept

    def get(self, name: str) -> Result:
        """The result, which is then the last to go."""
        with self._lock:
            if name not in self._results:
                raise InputError("this result is not kept any more; explain again")
            self._results.move_to_end(name)
            return self._results[name]

    @property
    def size(self) -> int:
        """Bytes of all results."""
        with self._lock:
            return sum(result.size for result in self._results.values())


_DRAWING = threading.Lock()  # matplotlib draws for one thread at a time
