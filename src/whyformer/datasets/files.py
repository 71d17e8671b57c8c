"""Find and read the files of a dataset: text lines, CSV tables, JSON. Errors name the place."""

from __future__ import annotations

import codecs
import csv
import importlib
import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whyformer.datasets.dataset import Format, Spot
from whyformer.errors import InputError, OptionError
from whyformer.registry import nearest

IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


@dataclass(frozen=True)
class DatasetSource:
    """The path of a dataset, the split, and the expected format."""

    path: Path
    split: str
    format: Format

    def find(self, *names: str) -> Path:
        """Return the path if it is a file, else the first of these that the folder has."""
        if self.path.is_file():
            return self.path
        found = self.find_optional(*names)
        if found is None:
            raise self.missing_error(*names)
        return found

    def find_optional(self, *names: str) -> Path | None:
        """Return the first of these files or folders that exists in the folder, or None."""
        folder = self.path.parent if self.path.is_file() else self.path
        return next((folder / name for name in names if (folder / name).exists()), None)

    def missing_error(self, *names: str) -> InputError:
        """Return an error that lists these missing files and the expected layout."""
        if not self.path.exists():
            problem = f"there is no file or folder {self.path}"
        else:
            problem = f"{self.path} has no {' and no '.join(names)}"
        return InputError(
            f"{problem}. The layout of {self.format.name} is: {self.format.layout}",
            argument="data",
            remedy=f"Pass the path that has these files, as in {self.format.name}:PATH",
        )

    def id(self, part: object) -> str:
        """Return the id of a sample: the split, and its number or name within it."""
        return f"{self.split}/{part}"


def import_optional(package: str, purpose: str) -> Any:
    """Import an optional package; raise InputError with the command to install it if missing."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        needed = package.partition(".")[0]
        raise InputError(
            f"{purpose} needs the package {needed}, which is not installed",
            remedy="Run: pip install 'whyformer[data]'",
        ) from error


def check_choice(name: str, value: str, known: Collection[str]) -> str:
    """Return the value; raise OptionError if the option cannot take it."""
    if value not in known:
        raise OptionError(
            f"{name} is {value!r}.{nearest(value, known)} It can be: {', '.join(known)}",
            argument=name,
        )
    return value


def file_within(folder: Path, name: str, spot: Spot) -> Path:
    """Return the file that a row names; raise RowError if it is outside the folder."""
    file = folder / name.replace("\0", "")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise spot.error(f"{name!r} is outside {folder}", "the name of a file in that folder")
    return file


def parse_whole(text: str) -> int | None:
    """Return the text as a whole number from 0, or None if it is not one."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def image_files(folder: Path) -> list[Path]:
    """Return the images in a folder, sorted by name."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in IMAGES)


# -- text ----------------------------------------------------------------------------------------


def text_encoding(file: Path, encoding: str = "utf-8") -> str:
    """Return the encoding to open a file with; raise if it is unknown or the file is UTF-16."""
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise OptionError(
            f"there is no encoding {encoding!r}",
            argument="encoding",
            remedy="Try utf-8 or latin-1",
        ) from None
    with file.open("rb") as opened:
        start = opened.read(4)
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    if is_utf8 and start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(
            f"{file} is UTF-16; expected UTF-8",
            argument="encoding",
            remedy="Save it as UTF-8, or pass encoding='utf-16' if the reader has that option",
        )
    return "utf-8-sig" if is_utf8 else encoding


def require_utf8(text: str, spot: Spot) -> str:
    """Return the text; raise RowError if it has bytes that are not UTF-8.

    Files are decoded with `surrogateescape`, so that a bad byte affects one row and not the file.
    """
    for char in text if not text.isascii() else "":
        if "\udc80" <= char <= "\udcff":
            raise spot.error(
                f"the byte 0x{ord(char) - 0xDC00:02x} is not UTF-8",
                "UTF-8 (pass another encoding as in encoding='latin-1')",
            )
    return text


def read_lines(file: Path, encoding: str = "utf-8") -> Iterator[tuple[Spot, str]]:
    """Yield every line with its place, empty ones included; only LF and CRLF end a line."""
    encoding = text_encoding(file, encoding)
    with file.open(encoding=encoding, errors="surrogateescape", newline="\n") as opened:
        for number, line in enumerate(opened, 1):
            yield Spot(file, number), line.rstrip("\n").removesuffix("\r")


# -- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One row of a table, not checked yet."""

    spot: Spot
    columns: tuple[str, ...]
    cells: Sequence[str]
    problem: str = ""

    def by_column(self) -> dict[str, str]:
        """Return the cells by column; raise RowError if their number is wrong."""
        if self.problem:
            raise self.spot.error(self.problem, "a row of CSV, quotes closed and doubled inside")
        if len(self.cells) != len(self.columns):
            raise self.spot.error(
                f"{len(self.cells)} cells", f"{len(self.columns)}: {', '.join(self.columns)}"
            )
        return dict(
            zip(self.columns, (require_utf8(c, self.spot) for c in self.cells), strict=True)
        )


@dataclass(frozen=True)
class CsvTable:
    """The columns of a CSV file; every call of `records` starts from the first row."""

    file: Path
    columns: tuple[str, ...]
    records: Callable[[], Iterator[Record]]

    def column(self, *names: str) -> str:
        """Return the first of these columns that the table has, in any case; raise if none."""
        found = self.optional_column(*names)
        if found is None:
            raise InputError(
                f"{self.file}, line 1: there is no column {' or '.join(map(repr, names))}."
                f" The columns are: {', '.join(self.columns)}"
            )
        return found

    def optional_column(self, *names: str) -> str | None:
        """Return the first of these columns that the table has, in any case, or None."""
        lower = {column.lower(): column for column in reversed(self.columns)}
        return next((lower[n.lower()] for n in names if n.lower() in lower), None)


def open_csv(file: Path, delimiter: str = ",", encoding: str = "utf-8") -> CsvTable:
    """Open a CSV file whose first row names the columns."""
    first = next(_records(file, (), delimiter, encoding), None)
    if first is None:
        raise InputError(f"{file} is empty; expected a first line that names the columns")
    if first.problem:
        raise first.spot.error(first.problem, "a first line that names the columns")
    columns = tuple(require_utf8(cell, first.spot).strip() for cell in first.cells)
    if len(set(columns)) < len(columns):
        raise InputError(f"{file}, line 1: two columns have the same name: {', '.join(columns)}")

    def records() -> Iterator[Record]:
        found = _records(file, columns, delimiter, encoding)
        next(found, None)
        yield from found

    return CsvTable(file, columns, records)


def _records(
    file: Path, columns: tuple[str, ...], delimiter: str, encoding: str
) -> Iterator[Record]:
    encoding = text_encoding(file, encoding)
    with file.open(encoding=encoding, errors="surrogateescape", newline="") as opened:
        # Strict: otherwise a quote that is never closed silently swallows the rest of the file.
        reader = csv.reader(opened, delimiter=delimiter, strict=True)
        while True:
            start = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = f"{error} (read up to line {reader.line_num})"
                yield Record(Spot(file, start), columns, (), problem)
                continue
            if cells:
                yield Record(Spot(file, start), columns, cells)


# -- JSON ----------------------------------------------------------------------------------------


def load_json(file: Path) -> Any:
    """Return the content of a JSON file."""
    try:
        return json.loads(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is not UTF-8 at byte {error.start}", remedy="Save it as UTF-8"
        ) from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}, line {error.lineno}, column {error.colno}: this is not JSON ({error.msg})",
            remedy="Check that the file is complete",
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: this is not the JSON of a dataset ({error})") from error


def parse_line(text: str, spot: Spot) -> dict[str, Any]:
    """Return the JSON object on one line."""
    require_utf8(text, spot)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits raises ValueError
        raise spot.error(f"this is not JSON ({error})", "one JSON object per line") from error
    if not isinstance(found, dict):
        raise spot.error(f"a JSON {type(found).__name__}", "one JSON object per line")
    return found


def get_entry(mapping: Any, key: str, kind: type | tuple[type, ...], spot: Spot) -> Any:
    """Return the value of a key; raise RowError if it is missing or of another type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(k.__name__ for k in kinds)
    if not isinstance(mapping, dict) or key not in mapping:
        raise spot.error(f"there is no {key!r}", f"an object with {key!r} ({expected})")
    value = mapping[key]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise spot.error(f"{key!r} is a {type(value).__name__}", expected)
    return value
