"""MNIST and similar datasets: idx files, plain or gzipped."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from PIL import Image

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource
from whyformer.datasets.foreign_errors import reading
from whyformer.errors import InputError

NAMES = {"train": "train", "test": "t10k"}
LABELS = tuple("0123456789")
LARGEST = 4096  # pixels: a header that says more is damaged
MOST = 10_000_000  # images: a header that says more is damaged
BYTES = 8  # the code of unsigned bytes in an idx header


@dataset(
    "mnist",
    title="MNIST digits",
    task="image-classification",
    splits=("test", "train"),
    layout="{train,t10k}-images-idx3-ubyte and {train,t10k}-labels-idx1-ubyte, each may end in .gz",
    licence="CC BY-SA 3.0",
    paper="LeCun et al. 1998",
)
def mnist(source: DatasetSource) -> Contents:
    """Read digits as grey images, one at a time."""
    start = NAMES[source.split]
    images, labels = (_file(source, f"{start}-{end}") for end in ("images-idx3", "labels-idx1"))
    count, height, width = _shape(images, 3)
    (label_count,) = _shape(labels, 1)
    if not (0 < height <= LARGEST and 0 < width <= LARGEST):
        raise InputError(f"{images} states an image size of {height} x {width} pixels")
    if count > MOST:
        raise InputError(f"{images} states {count:,} images; at most {MOST:,} are read")
    if count != label_count:
        raise InputError(f"{images} has {count} images and {labels} {label_count} labels")

    def read(name: str, number: int, opened: IO[bytes], label: int, spot: Spot) -> Sample:
        opened.seek(16 + number * height * width)
        pixels = opened.read(height * width)
        if len(pixels) < height * width:
            raise spot.error("the file ends here", f"{height * width} bytes per image")
        if label >= len(LABELS):
            raise spot.error(f"the label is {label}", "0 to 9")
        image = Image.frombytes("L", (width, height), pixels)
        return Sample(name, image, label, LABELS[label])

    def rows() -> Iterator[DatasetRow]:
        with reading(labels, "a complete idx file"), _open(labels) as opened:
            opened.seek(8)
            found = opened.read(count + 1)  # the checksum of a gzip file is at its end
        if len(found) < count:
            raise InputError(f"{labels} ends after {len(found)} of {count} labels")
        if len(found) > count:
            raise InputError(f"{labels} goes on after the {count} labels that it states")
        with _open(images) as opened:
            for i, label in enumerate(found):
                spot, at = Spot(images, entry=f"image {i}"), source.id(i)
                yield DatasetRow(at, spot, partial(read, at, i, opened, label, spot))
            with reading(images, "a complete idx file"):
                opened.seek(16 + count * height * width)
                opened.read(1)  # checks the checksum

    return Contents(rows, LABELS, count)


def _file(source: DatasetSource, start: str) -> Path:
    folder = source.path if source.path.is_dir() else source.path.parent
    names = [f"{name}{end}" for end in ("", ".gz") for name in _spellings(start)]
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise source.missing_error(names[0], f"{names[0]}.gz")
    return found


def _spellings(start: str) -> tuple[str, str]:
    """Both spellings: some programs write a dot before idx."""
    return f"{start}-ubyte", f"{start.replace('-idx', '.idx')}-ubyte"


def _open(file: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _shape(file: Path, dimensions: int) -> tuple[int, ...]:
    """The sizes in the header of an idx file of bytes."""
    with reading(file, "a readable idx file"), _open(file) as opened:
        header = opened.read(4 + 4 * dimensions)
    if len(header) < 4 + 4 * dimensions or header[:4] != bytes((0, 0, BYTES, dimensions)):
        raise InputError(
            f"{file} is not an idx file of bytes in {dimensions} dimensions: it starts with"
            f" {header[:4].hex(' ')}; expected 00 00 08 0{dimensions}"
        )
    return struct.unpack(f">{dimensions}I", header[4:])
