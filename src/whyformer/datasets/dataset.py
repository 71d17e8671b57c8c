"""What a reader gives: samples one by one, in the file's order, each with an id that stays."""

from __future__ import annotations

import hashlib
import heapq
import inspect
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from whyformer.errors import InputError, OptionError
from whyformer.registry import Registry, nearest

datasets: Registry[Format] = Registry("dataset", "whyformer.datasets")


@dataclass(frozen=True)
class Sample:
    """One thing to explain: what `whyformer.explain` takes, and what is known about it.

    `extras` may hold `tokens` and `rationale` (spans of them), `mask`, `objects`, `answers`, ...
    """

    id: str  # never from the content: "dev/17"
    inputs: Any  # a text, a pair of texts, the path of an image, an image, or a mapping by stream
    label: int | str | None = None
    label_name: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)


class RowError(InputError):
    """A row that is not what its format says, with the file and the line where it stands."""

    def __init__(self, message: str, file: Path | None = None, line: int | None = None) -> None:
        super().__init__(message)
        self.file = file
        self.line = line


@dataclass(frozen=True)
class Spot:
    """Where a row stands: a file, and a line of it or the name of an entry."""

    file: Path
    line: int | None = None
    entry: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        return f"{self.file}{line}{f', {self.entry}' if self.entry else ''}"

    def error(self, problem: str, expected: str) -> RowError:
        """The error that says what is wrong here, what was expected and what to do next."""
        return RowError(
            f"{self}: {problem}. Expected {expected}."
            " Correct it, or leave such rows out with on_error='skip'.",
            self.file,
            self.line,
        )


@dataclass(frozen=True)
class DatasetRow:
    """A sample that has not been read yet: choosing among rows costs no parsing."""

    id: str
    spot: Spot
    read: Callable[[], Sample]


@dataclass(frozen=True)
class Contents:
    """What a reader found at a path; `rows` starts again from the first row at every call."""

    rows: Callable[[], Iterator[DatasetRow]]
    labels: tuple[str, ...] = ()  # by index, where the format has names
    count: int | None = None  # of rows, where it is known without reading them


@dataclass(frozen=True)
class Format:
    """One published file format and its reader."""

    name: str
    read: Callable[..., Contents]
    title: str
    task: str
    layout: str  # what has to stand where, in the words of an error message
    splits: tuple[str, ...] = ("all",)  # the first is read where none is named
    licence: str = ""
    paper: str = ""
    package: str = ""  # what has to be installed beside whyformer

    @property
    def options(self) -> tuple[str, ...]:
        """What the reader takes beside a path and a split."""
        parameters = inspect.signature(self.read).parameters.values()
        return tuple(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)

    def split(self, wanted: str) -> str:
        """This format's own name of a split: "val", "dev" and "validation" are one."""
        same = ("dev", "val", "valid", "validation")
        asked = (wanted, *(same if wanted in same else ()))
        for known in sorted(self.splits, key=lambda known: known != wanted):
            if known.startswith(asked):  # "val" is also COCO's "val2017"
                return known
        raise OptionError(
            f"{self.name} has no split {wanted!r}.{nearest(wanted, self.splits)}"
            f" It has: {', '.join(self.splits)}."
        )

    def check(self, options: Mapping[str, Any]) -> None:
        """Nothing; an option that the reader does not know is an error that lists those it does."""
        for unknown in sorted(set(options) - set(self.options)):
            known = ", ".join(self.options) or "none"
            raise OptionError(
                f"the dataset {self.name} has no option {unknown!r}."
                f"{nearest(unknown, self.options)} It has: {known}."
            )


def dataset(
    name: str, **facts: Any
) -> Callable[[Callable[..., Contents]], Callable[..., Contents]]:
    """A decorator that registers a reader: a function of a `Source` and options to `Contents`."""

    def register(read: Callable[..., Contents]) -> Callable[..., Contents]:
        datasets.register(name, Format(name=name, read=read, **facts))
        return read

    return register


@dataclass
class Report:
    """What one pass over a dataset came to."""

    read: int = 0
    skipped: list[RowError] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"{self.read} samples read, {len(self.skipped)} rows skipped"]
        return "\n".join([*lines, *(f"  {error}" for error in self.skipped)])


class Dataset:
    """Samples of one split, read while they are asked for; it can be iterated again.

    `limit` takes the first rows; with a `seed` it takes rows drawn by their ids alone, so that a
    larger limit only adds to a smaller one, and the file's order is kept. A row that is skipped
    is not replaced: which rows are taken never depends on what they hold.
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
            raise OptionError(f"limit is {limit!r}: give a whole number from 1, or None for all.")
        if on_error not in ("raise", "skip"):
            raise OptionError(f"on_error is {on_error!r}: give 'raise' or 'skip'.")
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
        """The names of the labels by index; empty where the format has none."""
        return self._contents.labels

    def __repr__(self) -> str:
        return f"<Dataset {self.name}, split {self.split}>"

    def __len__(self) -> int:
        """How many rows a pass goes through, malformed ones included."""
        if self._count is None:
            self._count = sum(1 for _ in self._contents.rows())
        return self._count if self.limit is None else min(self.limit, self._count)

    def ids(self) -> list[str]:
        """The ids of the chosen rows, in the file's order; nothing else of them is read."""
        return [row.id for row in self._rows()]

    def subset(self, ids: Collection[str]) -> Dataset:
        """Those of the chosen samples that have one of these ids; the others are not read."""
        wanted = frozenset(ids)
        unknown = sorted(wanted - set(self.ids()))
        if unknown:
            raise InputError(f"{self!r} has no sample {', '.join(unknown[:3])}.")

        def rows() -> Iterator[DatasetRow]:
            return (row for row in self._rows() if row.id in wanted)

        contents = Contents(rows, self.labels, len(wanted))
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
                    raise row.spot.error(f"the id {row.id!r} stands here again", "an id once")
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
    except (OSError, EOFError, zlib.error) as error:  # gone, forbidden, cut short, no image
        raise row.spot.error(f"it cannot be read ({error})", "a readable file") from error


def _check_images(sample: Sample, spot: Spot) -> None:
    """Nothing; raises for an image that cannot be decoded, which else shows when it is used.

    Only where such rows may be left out: to decode twice is a price that others need not pay.
    """
    given = sample.inputs
    for value in given.values() if isinstance(given, Mapping) else (given,):
        try:
            if isinstance(value, Path):
                with Image.open(value) as image:
                    image.load()
            elif isinstance(value, Image.Image):
                value.load()
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            raise spot.error(f"its image cannot be decoded ({error})", "an image") from error
