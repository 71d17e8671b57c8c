"""The ledger of a run: which shards are finished, and the checksum of each.

Every writer has a ledger file of its own, so that two writers never change the same file. A shard
counts if a line names it and its bytes have that checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from whyformer.storage.run_folder import RunFolder, reason_of

LEDGER = "ledger"
SUFFIX = ".jsonl"


@dataclass(frozen=True)
class Damage:
    """A file of a run that does not count, and why; its rows are computed again."""

    file: str
    reason: str

    def __str__(self) -> str:
        return f"{self.file} ({self.reason})"


@dataclass
class Ledger:
    """The shards of one sub-folder of a run.

    Args:
        folder: The run.
        shards: The sub-folder of the shards.
    """

    folder: RunFolder
    shards: str
    damage: list[Damage] = field(default_factory=list)
    _lines: list[str] = field(default_factory=list)
    _own: str = ""

    def read(self) -> Iterator[tuple[str, bytes]]:
        """Yield the name and content of every sound shard; the others are listed in `damage`."""
        known = self._known()
        present = self.folder.names(self.shards)
        for name in sorted(set(known) - set(present)):
            self._note(name, "it is missing")
        for name in present:
            if name not in known:
                self._note(name, "no ledger line names it")
                continue
            try:
                content = self.folder.read(f"{self.shards}/{name}")
            except OSError as error:
                self._note(name, f"it cannot be read: {reason_of(error)}")
                continue
            if _checksum(content) in known[name]:
                yield name, content
            else:
                self._note(name, "its checksum is another one than in the ledger")

    def write(self, name: str, content: bytes) -> None:
        """Write a shard, then its line; raise OSError if that fails."""
        self.folder.write(f"{self.shards}/{name}", content)
        line = {"shard": name, "sha256": _checksum(content), "bytes": len(content)}
        self._lines.append(json.dumps(line, sort_keys=True))
        self._own = self._own or _writer_name()
        text = "".join(f"{one}\n" for one in self._lines)
        self.folder.write(f"{LEDGER}/{self._own}{SUFFIX}", text.encode())

    def _known(self) -> dict[str, set[str]]:
        """By shard the checksums that some ledger gives it."""
        known: dict[str, set[str]] = {}
        for name in self.folder.names(LEDGER):
            if not name.endswith(SUFFIX):
                continue
            try:
                text = self.folder.read(f"{LEDGER}/{name}").decode("utf-8", "replace")
            except OSError as error:
                self.damage.append(Damage(f"{LEDGER}/{name}", reason_of(error)))
                continue
            for line in text.splitlines():
                try:
                    entry = json.loads(line)
                    known.setdefault(entry["shard"], set()).add(entry["sha256"])
                except (ValueError, KeyError, TypeError):
                    self.damage.append(Damage(f"{LEDGER}/{name}", "a line is damaged"))
        return known

    def _note(self, name: str, reason: str) -> None:
        self.damage.append(Damage(f"{self.shards}/{name}", reason))


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _writer_name() -> str:
    """A name that no other writer has; in the order of time."""
    return f"{time.time_ns():020d}-{os.getpid()}-{secrets.token_hex(4)}"
