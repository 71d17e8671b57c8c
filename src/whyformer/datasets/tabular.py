"""Samples from tables with named columns: CSV, JSON lines, Parquet and `datasets` objects."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image

from whyformer.datasets.dataset import Sample, Spot
from whyformer.errors import InputError
from whyformer.image_files import open_image_file
from whyformer.registry import nearest

# The usual names of columns, in order of preference.
USUAL = {
    "text": ("text", "sentence", "sentence1", "premise", "content", "review"),
    "text2": ("text2", "sentence2", "hypothesis"),
    "image": ("image", "img", "image_path"),
    "label": ("label", "labels", "class", "target"),
}
# Options of every reader of tables: the column of each part, and the labels' names ("bad|good").
COLUMN_OPTIONS = (*USUAL, "labels")
SPLITS = ("all", "train", "dev", "test", "validation")
# If some labels are missing, spreadsheets and pandas write the others as 1.0.
_NUMBER = re.compile(r"[+-]?[0-9]{1,18}(\.0*)?")


@dataclass(frozen=True)
class Columns:
    """Which column holds what; an empty name if the samples do not have it."""

    text: str = ""
    text2: str = ""
    image: str = ""
    label: str = ""
    labels: tuple[str, ...] = ()
    folder: Path | None = None  # the paths of images are relative to it

    @property
    def column_names(self) -> list[str]:
        """The columns to read."""
        return [c for c in (self.text, self.text2, self.image, self.label) if c]

    def sample(self, name: str, row: Mapping[str, Any], spot: Spot) -> Sample:
        """Return the sample of one row."""
        texts = [self._text(row, column, spot) for column in (self.text, self.text2) if column]
        text = tuple(texts) if len(texts) == 2 else "".join(texts)
        inputs: Any = text
        if self.image:
            picture = self._image(row.get(self.image), spot)
            inputs = {"text": text, "image": picture} if texts else picture
        label, label_name = self._label(row.get(self.label)) if self.label else (None, None)
        return Sample(name, inputs, label, label_name)

    def _text(self, row: Mapping[str, Any], column: str, spot: Spot) -> str:
        value = row.get(column)
        if not isinstance(value, str) or not value.strip():
            found = "empty" if value in (None, "") or isinstance(value, str) else repr(value)
            raise spot.error(f"{column!r} is {found}", "a text")
        return value

    def _image(self, value: Any, spot: Spot) -> Any:
        """The path of an image, or the image that is stored in the row."""
        if isinstance(value, Mapping):  # how `datasets` writes images to Parquet
            value = value.get("bytes") or value.get("path")
        if isinstance(value, Image.Image):
            return value
        if isinstance(value, bytes):
            try:
                return open_image_file(io.BytesIO(value), "data")
            except InputError as error:
                raise spot.error(error.message, "an image") from error
            except OSError as error:
                raise spot.error(
                    f"{self.image!r} is not an image", "the bytes of an image"
                ) from error
        if not isinstance(value, str | Path) or not str(value).strip():
            raise spot.error(f"{self.image!r} is {value!r}", "the path of an image")
        path = (self.folder or Path()) / value
        if not path.is_file():
            raise spot.error(f"there is no image {path}", "the path of an image")
        return path

    def _label(self, value: Any) -> tuple[int | str | None, str | None]:
        if value is None or (isinstance(value, str) and not value.strip()):
            return None, None
        if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
            value = value.strip()
            if value in self.labels:
                return self.labels.index(value), value
            return value, value
        if isinstance(value, float) and not value.is_integer():
            return str(value), None
        number = int(value.partition(".")[0] if isinstance(value, str) else value)
        has_name = 0 <= number < len(self.labels)
        return number, self.labels[number] if has_name else None


def choose_columns(
    columns: Sequence[str],
    origin: object,
    options: Mapping[str, str],
    *,
    labels: Sequence[str] = (),
    folder: Path | None = None,
) -> Columns:
    """Return the columns that the options name, and those with the usual names for the rest."""
    lower = {column.lower(): column for column in reversed(columns)}
    found: dict[str, str] = {}
    for part, usual in USUAL.items():
        column = options.get(part, "")
        if column and column not in columns:
            raise InputError(
                f"{origin} has no column {column!r}.{nearest(column, columns)}"
                f" The columns are: {', '.join(columns)}",
                argument=part,
                remedy=f"Name one of them as {part}=COLUMN",
            )
        found[part] = column or next((lower[name] for name in usual if name in lower), "")
    if not found["text"] and not found["image"]:
        raise InputError(
            f"{origin} has no column that is called text or image."
            f" The columns are: {', '.join(columns)}",
            remedy="Name the column to read with text=COLUMN or image=COLUMN",
        )
    return Columns(**found, labels=tuple(labels), folder=folder)


def columns_of_file(names: Sequence[str], file: Path, options: Mapping[str, str]) -> Columns:
    """Return the columns of a file with these column names; `options` are COLUMN_OPTIONS."""
    labels = options.get("labels", "")
    label_names = tuple(name.strip() for name in labels.split("|")) if labels else ()
    return choose_columns(names, file, options, labels=label_names, folder=file.parent)
