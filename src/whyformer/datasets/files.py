"""Where files are looked for, and their lines, tables and JSON with every mistake's place."""

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
class Source:
    """The path that the user gave, the split, and the format that is expected there."""

    path: Path
    split: str
    format: Format

    def find(self, *names: str) -> Path:
        """The first of these that exists in the folder, or the path itself where it is a file."""
        if self.path.is_file():
            return self.path
        found = self.find_optional(*names)
        if found is None:
            raise self.missing_error(*names)
        return found

    def find_optional(self, *names: str) -> Path | None:
        """The first of these files or folders that exists in the folder, if any does."""
        folder = self.path.parent if self.path.is_file() else self.path
        return next((folder / name for name in names if (folder / name).exists()), None)

    def missing_error(self, *names: str) -> InputError:
        """The error that says which files were looked for, and the layout that is expected."""
        if not self.path.exists():
            looked = f"there is no file or folder {self.path}"
        else:
            looked = f"{self.path} holds no {' and no '.join(names)}"
        return InputError(
            f"{looked}. The layout of {self.format.name} is: {self.format.layout}."
            f" Give the path that holds it, as in {self.format.name}:PATH."
        )

    def id(self, part: object) -> str:
        """The id of a sample: the split, and its number or name within it."""
        return f"{self.split}/{part}"


def import_optional(package: str, purpose: str) -> Any:
    """The module of a package that whyformer can do without, or an error that says how to get it.

    Imported by name and only when needed: no other reader should have to have it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        needed = package.partition(".")[0]
        raise InputError(
            f"{purpose} needs the package {needed}, which is not installed:"
            " pip install 'whyformer[data]'"
        ) from error


def check_choice(name: str, value: str, known: Collection[str]) -> str:
    """The value, if it is one of those that an option can take."""
    if value not in known:
        raise OptionError(
            f"{name} is {value!r}.{nearest(value, known)} It can be: {', '.join(known)}."
        )
    return value


def file_within(folder: Path, name: str, spot: Spot) -> Path:
    """The file that a row names; one outside the folder is a malformed row."""
    file = folder / name.replace("\0", "")
    if not file.resolve().is_relative_to(folder.resolve()):
        raise spot.error(f"{name!r} leads out of {folder}", "the name of a file in that folder")
    return file


def parse_whole(text: str) -> int | None:
    """The whole number from 0 that a cell holds, if that is what it holds."""
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def image_files(folder: Path) -> list[Path]:
    """The images of a folder, sorted by name."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in IMAGES)


# -- text ----------------------------------------------------------------------------------------


def text_encoding(file: Path, encoding: str = "utf-8") -> str:
    """The encoding to open a file with; one in UTF-16 or in an unknown encoding is an error."""
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise OptionError(f"there is no encoding {encoding!r}: try utf-8 or latin-1.") from None
    with file.open("rb") as opened:
        start = opened.read(4)
    is_utf8 = codecs.lookup(encoding).name == "utf-8"
    if is_utf8 and start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(
            f"{file} is written in UTF-16, and UTF-8 is expected."
            " Save it as UTF-8, or pass encoding='utf-16' where the reader has that option."
        )
    return "utf-8-sig" if is_utf8 else encoding


def require_utf8(text: str, spot: Spot) -> str:
    """The text itself, unless bytes that are no text were found in it.

    Files are decoded with `surrogateescape`, so that one bad byte costs one row and not the file.
    """
    for char in text if not text.isascii() else "":
        if "\udc80" <= char <= "\udcff":
            raise spot.error(
                f"the byte 0x{ord(char) - 0xDC00:02x} is not UTF-8",
                "UTF-8 (another encoding has to be named: encoding='latin-1')",
            )
    return text


def read_lines(file: Path, encoding: str = "utf-8") -> Iterator[tuple[Spot, str]]:
    """Every line with its place, empty ones included; only LF and CRLF end a line."""
    encoding = text_encoding(file, encoding)
    with file.open(encoding=encoding, errors="surrogateescape", newline="\n") as opened:
        for number, line in enumerate(opened, 1):
            yield Spot(file, number), line.rstrip("\n").removesuffix("\r")


# -- tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One row of a table before anything is asked of it."""

    spot: Spot
    columns: tuple[str, ...]
    cells: Sequence[str]
    problem: str = ""

    def by_column(self) -> dict[str, str]:
        """The cells by column; a row with more or fewer cells than columns is malformed."""
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
    """The columns of a CSV file, and its records from the first one at every call."""

    file: Path
    columns: tuple[str, ...]
    records: Callable[[], Iterator[Record]]

    def column(self, *names: str) -> str:
        """The first of these columns that the table has, whatever the case of its letters."""
        found = self.optional_column(*names)
        if found is None:
            raise InputError(
                f"{self.file}, line 1: there is no column {' or '.join(map(repr, names))}."
                f" The columns are: {', '.join(self.columns)}."
            )
        return found

    def optional_column(self, *names: str) -> str | None:
        """The first of these columns that the table has, if any."""
        lower = {column.lower(): column for column in reversed(self.columns)}
        return next((lower[n.lower()] for n in names if n.lower() in lower), None)


def open_csv(file: Path, delimiter: str = ",", encoding: str = "utf-8") -> CsvTable:
    """A CSV file whose first row names the columns."""
    first = next(_records(file, (), delimiter, encoding), None)
    if first is None:
        raise InputError(f"{file} is empty: a first line that names the columns is expected.")
    if first.problem:
        raise first.spot.error(first.problem, "a first line that names the columns")
    columns = tuple(require_utf8(cell, first.spot).strip() for cell in first.cells)
    if len(set(columns)) < len(columns):
        raise InputError(f"{file}, line 1: two columns have one name: {', '.join(columns)}.")

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
        # Strict: a quote that is never closed would else swallow the rest of the file unnoticed.
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
    """What a whole JSON file holds."""
    try:
        return json.loads(file.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not UTF-8 at byte {error.start}: save it as UTF-8.") from error
    except json.JSONDecodeError as error:
        raise InputError(
            f"{file}, line {error.lineno}, column {error.colno}: this is not JSON ({error.msg})."
            " Was the file copied completely?"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: this is no JSON of a dataset ({error}).") from error


def parse_line(text: str, spot: Spot) -> dict[str, Any]:
    """The JSON object on one line."""
    require_utf8(text, spot)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of 5,000 digits is no JSONDecodeError
        raise spot.error(f"this is not JSON ({error})", "one JSON object per line") from error
    if not isinstance(found, dict):
        raise spot.error(f"a JSON {type(found).__name__}", "one JSON object per line")
    return found


def get_entry(mapping: Any, key: str, kind: type | tuple[type, ...], spot: Spot) -> Any:
    """What a JSON object has under a key, if it is of the right type."""
    kinds = kind if isinstance(kind, tuple) else (kind,)
    wanted = " or ".join(k.__name__ for k in kinds)
    if not isinstance(mapping, dict) or key not in mapping:
        raise spot.error(f"there is no {key!r}", f"an object with {key!r} ({wanted})")
    value = mapping[key]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise spot.error(f"{key!r} is a {type(value).__name__}", wanted)
    return value
