"""Files that are whole or not there: written beside their place, and then put into it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], Any], folder: Path | None = None) -> None:
    """Nothing; writes beside the file, or in a folder, down to the disk, and takes its place."""
    beside = (folder or path.parent) / f".{path.name}.{os.getpid()}"
    try:
        write(beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
