"""Write a file so that it is complete or absent, also after a crash."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def write_atomically(path: Path, write: Callable[[Path], Any], folder: Path | None = None) -> None:
    """Write a temporary file beside `path`, or in `folder`, flush it to disk and rename it."""
    beside = (folder or path.parent) / f".{path.name}.{os.getpid()}"
    try:
        write(beside)
        with beside.open("rb") as file:
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
