"""`open_dataset`: from "sst2:PATH" to samples."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from whyformer.datasets.dataset import Dataset, datasets
from whyformer.datasets.files import Source
from whyformer.datasets.huggingface import from_huggingface, is_huggingface
from whyformer.errors import InputError

_OPTION = re.compile(r"(?s)(.+),([a-z_]\w*)=([^,]*)")


def open_dataset(
    source: Any,
    split: str | None = None,
    *,
    limit: int | None = None,
    seed: int | None = None,
    on_error: str = "raise",
    **options: Any,
) -> Dataset:
    """The samples of "name:PATH", or of an object of the library `datasets`.

    Options of a reader are keywords, or stand behind the path: "csv:my.csv,text=review,label=y".
    """
    chosen: dict[str, Any] = {"limit": limit, "seed": seed, "on_error": on_error}
    if is_huggingface(source):
        return from_huggingface(source, split, **chosen, **options)
    name, path, written = parse_source(source)
    known = datasets[name]
    options = {**written, **options}
    known.check(options)
    place = Path(path).expanduser()
    located = Source(place, known.split(split or _split_in_name(place, known.splits)), known)
    if not place.exists():
        raise located.missing_error()
    contents = known.read(located, **options)
    return Dataset(name, contents, split=located.split, task=known.task, **chosen)


def parse_source(source: Any) -> tuple[str, str, dict[str, str]]:
    """The name, the path and the options of "name:PATH,option=value,..."."""
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"a dataset is named as 'sst2:PATH', or is an object of the library datasets;"
            f" this is a {type(source).__name__}."
        )
    name, colon, path = os.fspath(source).partition(":")
    if not colon or not name or not path:
        raise InputError(
            f"{os.fspath(source)!r} names no dataset: write NAME:PATH, as in sst2:PATH."
            f" The names are: {', '.join(datasets)}."
        )
    options: dict[str, str] = {}
    # From the right, and only while there is no such path: a path may have commas of its own.
    while not Path(path).expanduser().exists() and (found := _OPTION.fullmatch(path)):
        path, key, value = found.groups()
        options[key] = value
    return name, path, options


def _split_in_name(path: Path, splits: tuple[str, ...]) -> str:
    """The split that a file's own name tells, or the format's first."""
    words = re.split(r"[^a-z0-9]+", path.name.lower()) if path.is_file() else []
    return next((split for split in splits if split in words), splits[0])
