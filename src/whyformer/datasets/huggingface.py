"""Objects of the library `datasets`; this module does not import it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from whyformer.datasets.dataset import Contents, Dataset, DatasetRow, Sample, Spot
from whyformer.datasets.tabular import USUAL, choose_columns
from whyformer.errors import InputError, OptionError

COLUMNS = ("Column", "IterableColumn")  # types of one column, which are lists and iterators


def is_huggingface(source: Any) -> bool:
    """Return whether this is a `Dataset`, an `IterableDataset` or a dictionary of splits."""
    kind = type(source)
    return kind.__module__.partition(".")[0] == "datasets" and kind.__name__ not in COLUMNS


def from_huggingface(
    source: Any, split: str | None, options: Mapping[str, str], **settings: Any
) -> Dataset:
    """Return the samples of an object of the library `datasets`.

    Args:
        source: The object.
        split: The split, if the object has several.
        options: The names of its columns.
        settings: `limit`, `seed` and `on_error` of the `Dataset`.
    """
    for unknown in sorted(set(options) - set(USUAL)):
        raise OptionError(
            f"there is no option {unknown!r} for objects of the library datasets",
            remedy=f"Name columns with {', '.join(USUAL)}",
        )
    if isinstance(source, Mapping):
        if split is None or split not in source:
            raise InputError(
                f"there is no split {split!r}. This object has: {', '.join(map(str, source))}",
                argument="split",
            )
        source = source[split]
    name = split or str(getattr(source, "split", None) or "all")
    columns = source.column_names
    if columns is None:  # a stream that has not been read yet
        columns = list(next(iter(source), {}))
    features = getattr(source, "features", None) or {}
    found = choose_columns(columns, "the dataset", options)
    names = getattr(features.get(found.label), "names", None) or ()
    found = choose_columns(columns, "the dataset", options, labels=names)
    origin = Path(f"datasets:{getattr(source, 'builder_name', None) or 'object'}")
    has_length = hasattr(source, "__len__")

    def sample(number: int, row: Any, at: str, spot: Spot) -> Sample:
        return found.sample(at, source[number] if row is None else row, spot)

    def rows() -> Iterator[DatasetRow]:
        # By number if possible, so that images that are not chosen are not decoded.
        pairs = ((i, None) for i in range(len(source))) if has_length else enumerate(source)
        for number, row in pairs:
            spot, at = Spot(origin, entry=f"row {number}"), f"{name}/{number}"
            yield DatasetRow(at, spot, partial(sample, number, row, at, spot))

    contents = Contents(rows, found.labels, len(source) if has_length else None)
    return Dataset("huggingface", contents, split=name, **settings)
