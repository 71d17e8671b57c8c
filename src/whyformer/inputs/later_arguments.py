"""Arguments that are computed when they are first read: few methods read the neutral ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any


class LaterArguments(Mapping[str, Any]):
    """A mapping whose entries are what a function returns."""

    def __init__(self, compute: Callable[[], Mapping[str, Any]]) -> None:
        self._compute = compute

    @cached_property
    def _entries(self) -> Mapping[str, Any]:
        return self._compute()

    def __getitem__(self, name: str) -> Any:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
