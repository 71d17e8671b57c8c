"""Output files: checked before the work begins, written after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from whyformer.attribution import file_views
from whyformer.cli.console import note, print_written
from whyformer.errors import WhyformerError
from whyformer.inputs.detect import IMAGE_SUFFIXES

PICTURE = Path("why.png")  # written for --image if no output file is named


class OutputError(WhyformerError, OSError):
    """A file cannot be written."""


def check_writable(paths: Mapping[str, Path | None], kept: Path | None = None) -> None:
    """Raise OutputError if a file cannot be written; `paths` are by option.

    `kept` is an input file that must not be overwritten.
    """
    for option, path in paths.items():
        if path is None:
            continue
        if kept is not None and _same(kept, path):
            raise OutputError(
                f"{option} {str(path)!r} is the image to explain and would be overwritten",
                remedy=f"Name another file, such as {option} explained{path.suffix}",
            )
        folder = path.expanduser().parent
        if path.expanduser().is_dir():
            raise OutputError(f"{option} {str(path)!r} is a folder", remedy="Name a file in it")
        view = file_views().get(option.lstrip("-"))
        if view is not None and path.suffix.lower() in _suffixes() - {view.suffix}:
            raise OutputError(
                f"{option} {str(path)!r} ends in {path.suffix}, and {option} writes {view.title}",
                remedy=f"Name a file that ends in {view.suffix}",
            )
        if not folder.is_dir():
            raise OutputError(
                f"{option} {str(path)!r} cannot be written: there is no folder {str(folder)!r}",
                remedy="Create the folder first",
            )
        if not os.access(folder, os.W_OK):
            raise OutputError(
                f"{option} {str(path)!r} cannot be written: you may not write to the folder"
                f" {str(folder)!r}",
                remedy="Name a file in another folder",
            )


def _suffixes() -> set[str]:
    """The endings of files that hold something else than what the name of an option says."""
    return {view.suffix for view in file_views().values()} | set(IMAGE_SUFFIXES)


def default_picture(image: Path | None, files: Mapping[str, Path | None]) -> Path | None:
    """Return the file for --png: why.png if there is an image and no output file is named."""
    if image is None or any(path is not None for path in files.values()):
        return files.get("--png")
    if not os.access(Path(), os.W_OK):
        note("no picture was written, because this folder is read-only. Name a file with --png")
        return None
    return PICTURE


def _same(one: Path, other: Path) -> bool:
    return one.expanduser().resolve() == other.expanduser().resolve()


def write(option: str, path: Path | None, writer: Callable[[Path], Any]) -> None:
    """Write the file and print its name; do nothing if `path` is None."""
    if path is None:
        return
    try:
        writer(path.expanduser())
    except OSError as error:
        reason = error.strerror or str(error)
        raise OutputError(f"{option} {str(path)!r} cannot be written: {reason}") from error
    print_written(path)
