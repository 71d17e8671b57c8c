"""A lock on a folder: one process at a time; the system frees it when the process ends or dies."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: two runs are not kept apart
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


@dataclass
class FolderLock:
    """A lock on `folder`, which must exist when it is acquired."""

    folder: Path
    _file: int | None = None

    @property
    def is_held(self) -> bool:
        """Whether this lock was acquired and its folder still exists."""
        return self._file is not None and _same_file(self._file, self.folder / NAME)

    def acquire(self) -> bool:
        """Return whether the lock is ours; raise OSError if its file cannot be made."""
        self.release()
        while True:
            file = os.open(self.folder / NAME, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(file)
                return False
            except OSError:
                pass  # a file system without locks: runs are not kept apart there
            if _same_file(file, self.folder / NAME):
                self._file = file
                return True
            os.close(file)  # its holder has deleted the folder meanwhile

    def release(self) -> None:
        """Give the lock up."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _same_file(file: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
