"""Datasets: samples read one by one, in the order of the file, each with a stable id."""

from __future__ import annotations

import hashlib
import heapq
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from whyformer.errors import InputError, OptionError, WhyformerError
from whyformer.image_files import open_image_file, refuse_programs
from whyformer.registry import Registry, nearest

datasets: Registry[Format] = Registry("dataset", "whyformer.datasets")


@dataclass(frozen=True)
class Sample:
    """One input for `whyformer.explain`, with its label.

    Args:
        id: A name that does not depend on the content, such as "dev/17".
        inputs: A text, a pair of texts, an image or its path, or a mapping by stream.
        label: The class, as an index or a name; None if unknown.
        label_name: The name of the class.
        extras: What else the format has: `tokens` and `rationale` (spans of them), `mask`,
            `objects`, `answers`, ...
    """

    id: str
    inputs: Any
    label: int | str | None = None
    label_name: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


class RowError(InputError):
    """A row that does not fit its format, with its file and line."""

    def __init__(
        self,
        message: str,
        file: Path | None = None,
        line: int | None = None,
        *,
        argument: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message, argument=argument, remedy=remedy)
        self.file = file
        self.line = line


@dataclass(frozen=True)
class Spot:
    """The place of a row: a file, and a line or an entry of it."""

    file: Path
    line: int | None = None
    entry: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.file}{line}{f', {self.entry}' if self.entry else ''}"

    def error(self, problem: str, expected: str) -> RowError:
        """Return an error that names this place, what is wrong there, and what was expected."""
        return RowError(
            f"{self}: {problem}. Expected {expected}",
            self.file,
            self.line,
            argument="on_error",
            remedy="Correct the row, or skip such rows with on_error='skip'",
        )


@dataclass(frozen=True)
class DatasetRow:
    """A sample that has not been read yet, so that choosing among rows needs no parsing."""

    id: str
    spot: Spot
    read: Callable[[], Sample]


@dataclass(frozen=True)
class Contents:
    """What a reader found at a path; every call of `rows` starts from the first row."""

    rows: Callable[[], Iterator[DatasetRow]]
    labels: tuple[str, ...] = ()  # names by index, if the format has them
    count: int | None = None  # number of rows, if known without reading them


@dataclass(frozen=True)
class Format:
    """A published file format and its reader."""

    name: str
    read: Callable[..., Contents]
    title: str
    task: str
    layout: str  # the files that are expected, for error messages
    splits: tuple[str, ...] = ("all",)  # the first is the default
    licence: str = ""
    paper: str = ""
    package: str = ""  # an optional package that it needs
    shared_options: tuple[str, ...] = ()  # options that the reader takes as **keywords

    @property
    def options(self) -> tuple[str, ...]:
        """The options of the reader."""
        parameters = inspect.signature(self.read).parameters.values()
        declared = [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
        return (*self.shared_options, *declared)

    def split(self, name: str) -> str:
        """Return the format's name for a split; "val", "dev" and "validation" are the same."""
        same = ("dev", "val", "valid", "validation")
        prefixes = (name, *(same if name in same else ()))
        for known in sorted(self.splits, key=lambda known: known != name):
            if known.startswith(prefixes):  # "val" is also COCO's "val2017"
                return known
        raise OptionError(
            f"{self.name} has no split {name!r}.{nearest(name, self.splits)}"
            f" It has: {', '.join(self.splits)}",
            argument="split",
        )

    def check(self, options: Mapping[str, Any]) -> None:
        """Raise OptionError if the reader does not have one of these options."""
        for unknown in sorted(set(options) - set(self.options)):
            known = ", ".join(self.options) or "none"
            raise OptionError(
                f"the dataset {self.name} has no option {unknown!r}."
                f"{nearest(unknown, self.options)} It has: {known}"
            )


def dataset(
    name: str, **facts: Any
) -> Callable[[Callable[..., Contents]], Callable[..., Contents]]:
    """Register a reader: a function from a `DatasetSource` and options to `Contents`."""

    def register(read: Callable[..., Contents]) -> Callable[..., Contents]:
        datasets.register(name, Format(name=name, read=read, **facts))
        return read

    return register


@dataclass
class Report:
    """How many rows one pass over a dataset read, and which it skipped."""

    read: int = 0
    skipped: list[RowError] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.read} samples read, {len(self.skipped)} rows skipped"]
        return "\n".join([*lines, *(f"  {error.message}" for error in self.skipped)])


class Dataset:
    """The samples of one split, read on demand; it can be iterated several times.

    Args:
        name: The name of the format.
        contents: What the reader found.
        split: The name of the split.
        task: What the samples are for, such as "text-classification".
        limit: The most rows. Without a seed these are the first ones.
        seed: Draw the rows by their ids alone, in the order of the file, so that a larger limit
            only adds rows. A skipped row is not replaced.
        on_error: What to do with a row that cannot be read, "raise" or "skip".
    """

    def __init__(
        self,
        name: str,
        contents: Contents,
        *,
        split: str = "all",
        task: str = "",
        limit: int | None = None,
        seed: int | None = None,
        on_error: str = "raise",
    ) -> None:
        if limit is not None and (isinstance(limit, bool) or limit < 1):
            raise OptionError(
                f"limit is {limit!r}",
                argument="limit",
                remedy="Pass a whole number from 1, or None for all rows",
            )
        if on_error not in ("raise", "skip"):
            raise OptionError(
                f"on_error is {on_error!r}",
                argument="on_error",
                remedy="Pass 'raise' or 'skip'",
            )
        self.name = name
        self.split = split
        self.task = task
        self.limit = limit
        self.seed = seed
        self.on_error = on_error
        self.report = Report()  # of the latest pass
        self._contents = contents
        self._count = contents.count

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels by index; empty if the format has none."""
        return self._contents.labels

    def __repr__(self) -> str:
        return f"<Dataset {self.name}, split {self.split}>"

    def __len__(self) -> int:
        """Return the number of rows, malformed ones included."""
        if self._count is None:
            self._count = sum(1 for _ in self._contents.rows())
        return self._count if self.limit is None else min(self.limit, self._count)

    def ids(self) -> list[str]:
        """Return the ids of the chosen rows in the order of the file, without reading the rows."""
        return [row.id for row in self._rows()]

    def subset(self, ids: Collection[str]) -> Dataset:
        """Return a dataset of the samples with these ids; the others are not read."""
        chosen = frozenset(ids)
        unknown = sorted(chosen - set(self.ids()))
        if unknown:
            raise InputError(f"{self!r} has no sample {', '.join(unknown[:3])}")

        def rows() -> Iterator[DatasetRow]:
            return (row for row in self._rows() if row.id in chosen)

        contents = Contents(rows, self.labels, len(chosen))
        return Dataset(
            self.name, contents, split=self.split, task=self.task, on_error=self.on_error
        )

    def _rows(self) -> Iterator[DatasetRow]:
        if self.limit is None:
            yield from self._contents.rows()
        elif self.seed is None:
            for _, row in zip(range(self.limit), self._contents.rows(), strict=False):
                yield row
        else:
            chosen = self._draw_ids(self.limit)
            yield from (row for row in self._contents.rows() if row.id in chosen)

    def _draw_ids(self, limit: int) -> set[str]:
        def rank(name: str) -> bytes:
            return hashlib.sha256(f"{self.seed}/{name}".encode()).digest()

        return set(heapq.nsmallest(limit, (row.id for row in self._contents.rows()), key=rank))

    def __iter__(self) -> Iterator[Sample]:
        report = self.report = Report()
        seen: set[str] = set()
        for row in self._rows():
            try:
                if row.id in seen:
                    raise row.spot.error(f"the id {row.id!r} occurs twice", "different ids")
                seen.add(row.id)
                sample = _read(row)
                if self.on_error == "skip":
                    _check_images(sample, row.spot)
            except RowError as error:
                if self.on_error == "raise":
                    raise
                report.skipped.append(error)
                continue
            report.read += 1
            yield sample


def _read(row: DatasetRow) -> Sample:
    try:
        return row.read()
    except WhyformerError:
        raise
    except Exception as error:  # gone, forbidden, cut short, no image: libraries raise anything
        raise row.spot.error(f"it cannot be read ({error})", "a readable file") from error


def _check_images(sample: Sample, spot: Spot) -> None:
    """Raise RowError if an image cannot be decoded.

    Called only if such rows may be skipped, because it decodes every image one more time.
    """
    inputs = sample.inputs
    for value in inputs.values() if isinstance(inputs, Mapping) else (inputs,):
        try:
            if isinstance(value, Path):
                with open_image_file(value, "data") as image:
                    image.load()
            elif isinstance(value, Image.Image):
                refuse_programs(value, "the image", "data")
                value.load()
        except Exception as error:  # Pillow raises anything on damaged images
            raise spot.error(f"its image cannot be decoded ({error})", "an image") from error
