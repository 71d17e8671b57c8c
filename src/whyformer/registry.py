"""Registries that import every module of a folder: adding a file there adds an entry."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import pkgutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from whyformer.errors import UnknownNameError

Entry = TypeVar("Entry")


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean ...?" with the closest known name, or "" if none is close."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
    return f" Did you mean '{close[0]}'?" if close else ""


class Registry(Mapping[str, Entry], Generic[Entry]):
    """A read-only mapping from name to entry, filled by importing every module of one folder."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind = kind
        self.package = package
        self._entries: dict[str, Entry] = {}
        self._scanned = False
        self._lock = threading.RLock()
        if hasattr(os, "register_at_fork"):  # a thread that holds it is not in the child
            os.register_at_fork(after_in_child=self._lock._at_fork_reinit)  # type: ignore[attr-defined]

    def register(self, name: str, entry: Entry) -> Entry:
        """Add an entry and return it; raise ValueError if the name is already registered."""
        if name in self._entries:
            raise ValueError(f"{self.kind} '{name}' is registered twice")
        self._entries[name] = entry
        return entry

    def _scan(self) -> dict[str, Entry]:
        """Return all entries by name; the first call imports the modules of the folder."""
        with self._lock:
            if not self._scanned:
                folder = importlib.import_module(self.package)
                for module in sorted(m.name for m in pkgutil.iter_modules(folder.__path__)):
                    importlib.import_module(f"{self.package}.{module}")
                self._scanned = True
        return self._entries

    def _import_module_of(self, name: str) -> None:
        """Import the module of the entry's name, if there is one, and not the others."""
        with self._lock:
            if not self._scanned and name.isidentifier() and name not in self._entries:
                module = f"{self.package}.{name}"
                if importlib.util.find_spec(module):
                    importlib.import_module(module)

    def __getitem__(self, name: str) -> Entry:
        if isinstance(name, str):
            self._import_module_of(name)
            if name in self._entries:
                return self._entries[name]
        entries = self._scan()
        if not isinstance(name, str) or name not in entries:
            raise UnknownNameError(
                f"there is no {self.kind} called {name!r}.{nearest(str(name), entries)}",
                argument=self.kind,
                remedy=f"Choose one of {', '.join(sorted(entries))}",
            )
        return entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._scan()

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._scan()))

    def __len__(self) -> int:
        return len(self._scan())
