"""The latest results, kept in memory for the report frame and for downloads."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits
from whyformer.models.quiet import quiet_warnings
from whyformer.render.html.fragment import Page


class Result:
    """One report: its page, its numbers as JSON, and other files, rendered on demand."""

    def __init__(self, page: Page, data: bytes, render: Callable[[str], str | bytes]) -> None:
        """`render` returns the content of a view, given the view's name."""
        self.page = page
        self._render = render
        self._size = page.size + 2 * len(
            data
        )  # an estimate: the tensors need about as much as the JSON
        self._files: dict[str, bytes] = {"json": data}

    def file(self, view: str) -> bytes:
        """Return the report as the file of one view."""
        if view not in self._files:
            # A character that no font has gives a warning and is drawn as a box.
            with _DRAWING, quiet_warnings():
                content = self._render(view)
            self._files[view] = content if isinstance(content, bytes) else content.encode()
            self._size += len(self._files[view])
        return self._files[view]

    @property
    def size(self) -> int:
        """The approximate number of bytes."""
        return self._size


class ResultCache:
    """Results by a random name; the least recently used are dropped."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._results: OrderedDict[str, Result] = OrderedDict()

    def put(self, result: Result) -> str:
        """Store a result; return its name."""
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
        """Return a result and mark it as used."""
        with self._lock:
            if name not in self._results:
                raise InputError("this result is no longer stored", remedy="Explain again")
            self._results.move_to_end(name)
            return self._results[name]

    @property
    def size(self) -> int:
        """The bytes of all results."""
        with self._lock:
            return sum(result.size for result in self._results.values())


_DRAWING = threading.Lock()  # matplotlib draws for one thread at a time
