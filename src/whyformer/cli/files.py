"""Files that a command writes: refused before the work begins, written after it, told about."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from whyformer.cli.console import note, stderr_console
from whyformer.errors import WhyformerError

PICTURE = Path("why.png")  # what is written where an image was asked about and no file was named


class OutputError(WhyformerError, OSError):
    """A file that cannot be written where the user wants it."""


def check_writable(paths: Mapping[str, Path | None], kept: Path | None = None) -> None:
    """Nothing; raises where one of the files cannot be written, named by its option.

    `kept` is an input that must not be written over.
    """
    for option, path in paths.items():
        if path is None:
            continue
        if kept is not None and _same(kept, path):
            raise OutputError(
                f"{option} {str(path)!r} is the image that is to be explained; name another file to"
                f" write, such as {option} explained{path.suffix}"
            )
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


def default_picture(image: Path | None, named: Mapping[str, Path | None]) -> Path | None:
    """Where the picture goes: why.png where an image was asked about and no file was named."""
    if image is None or any(path is not None for path in named.values()):
        return named.get("--png")
    if not os.access(Path(), os.W_OK):
        note("no picture is written: this folder does not allow it; name a file with --png")
        return None
    return PICTURE


def _same(one: Path, other: Path) -> bool:
    return one.expanduser().resolve() == other.expanduser().resolve()


def write(option: str, path: Path | None, writer: Callable[[Path], Any]) -> None:
    """Calls the writer with the path, if there is one, and says so."""
    if path is None:
        return
    try:
        writer(path.expanduser())
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{option} {str(path)!r} cannot be written: {reason}") from error
    stderr_console().print(f"wrote {path}", soft_wrap=True, markup=False)
