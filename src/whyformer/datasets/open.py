"""`open_dataset`: find the reader for "sst2:PATH" and return a `Dataset`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from whyformer.datasets.dataset import Dataset, datasets
from whyformer.datasets.files import DatasetSource
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
    """Open a dataset.

    Args:
        source: "name:PATH", or an object of the library `datasets`. Options of the reader may
            follow the path: "csv:my.csv,text=review,label=y".
        split: The split; the one in the file's name, or the format's first one, if None.
        limit: The most rows; all if None.
        seed: Draw the rows at random, by their ids, instead of taking the first ones.
        on_error: What to do with a row that cannot be read, "raise" or "skip".
        options: Options of the reader.

    Returns:
        The samples, which are read when they are iterated.

    Raises:
        InputError: The files are missing or do not fit the format.
        OptionError: The format has no such split or option.
        UnknownNameError: There is no such format.

    Example:
        >>> open_dataset("csv:reviews.csv,text=review", limit=100)  # doctest: +SKIP
        <Dataset csv, split all>
    """
    settings: dict[str, Any] = {"limit": limit, "seed": seed, "on_error": on_error}
    if is_huggingface(source):
        return from_huggingface(source, split, options, **settings)
    name, path, path_options = parse_source(source)
    known = datasets[name]
    options = {**path_options, **options}
    known.check(options)
    place = Path(path).expanduser()
    located = DatasetSource(place, known.split(split or _split_in_name(place, known.splits)), known)
    if not place.exists():
        raise located.missing_error()
    contents = known.read(located, **options)
    return Dataset(name, contents, split=located.split, task=known.task, **settings)


def parse_source(source: Any) -> tuple[str, str, dict[str, str]]:
    """Return the name, the path and the options of "name:PATH,option=value,..."."""
    if not isinstance(source, str | os.PathLike):
        raise InputError(
            f"expected a dataset, got {type(source).__name__}",
            argument="data",
            remedy="Pass 'name:PATH' as in 'sst2:PATH', or an object of the library datasets",
        )
    name, colon, path = os.fspath(source).partition(":")
    if not colon or not name or not path:
        raise InputError(
            f"{os.fspath(source)!r} names no dataset",
            argument="data",
            remedy=f"Write NAME:PATH, as in sst2:PATH. The names are: {', '.join(datasets)}",
        )
    options: dict[str, str] = {}
    # From the right, and only while there is no such path: a path may contain commas.
    while not Path(path).expanduser().exists() and (found := _OPTION.fullmatch(path)):
        path, key, value = found.groups()
        options[key] = value
    return name, path, options


def _split_in_name(path: Path, splits: tuple[str, ...]) -> str:
    """The split in the name of the file, or else the first split of the format."""
    words = re.split(r"[^a-z0-9]+", path.name.lower()) if path.is_file() else []
    return next((split for split in splits if split in words), splits[0])
