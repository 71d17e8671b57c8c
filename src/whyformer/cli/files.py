"""Files that a command writes: refused before the work begins, written after it, told about."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from whyformer.cli.console import aside
from whyformer.errors import WhyformerError


class OutputError(WhyformerError, OSError):
    """A file that cannot be written where the user wants it."""


def check_writable(paths: Mapping[str, Path | None]) -> None:
    """Nothing; raises where one of the files cannot be written, named by its option."""
    for option, path in paths.items():
        if path is None:
            continue
        folder = path.expanduser().parent
        if path.expanduser().is_dir():
            raise OutputError(f"{option} {str(path)!r} is a folder; name a file in it")
        if not folder.is_dir():
            raise OutputError(
                f"{option} {str(path)!r} cannot be written: there is no folder {str(folder)!r};"
                " make it first"
            )
        if not os.access(folder, os.W_OK):
            raise OutputError(
                f"{option} {str(path)!r} cannot be written: the folder {str(folder)!r} does not"
                " allow it"
            )


def write(option: str, path: Path | None, writer: Callable[[Path], Any]) -> None:
    """Calls the writer with the path, if there is one, and says so."""
    if path is None:
        return
    try:
        writer(path.expanduser())
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{option} {str(path)!r} cannot be written: {reason}") from error
    aside().print(f"wrote {path}", soft_wrap=True, markup=False)
