"""MNIST's idx files."""

from __future__ import annotations

import gzip
import struct
from collections import Counter
from pathlib import Path

import numpy
import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

PIXELS = numpy.arange(2 * 3 * 4, dtype=numpy.uint8).reshape(2, 3, 4)


def idx(values: numpy.ndarray) -> bytes:
    """The bytes of an idx file."""
    header = bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(numpy.uint8).tobytes()


def files(images: bytes, labels: bytes, end: str = "") -> dict[str, str | bytes]:
    """The two files of the test split."""
    return {f"t10k-images-idx3-ubyte{end}": images, f"t10k-labels-idx1-ubyte{end}": labels}


@pytest.mark.parametrize("zipped", [False, True])
def test_images_and_labels(write: Write, zipped: bool) -> None:
    images, labels = idx(PIXELS), idx(numpy.array([7, 0]))
    if zipped:
        images, labels = gzip.compress(images), gzip.compress(labels)
    found = open_dataset(f"mnist:{write(files(images, labels, '.gz' if zipped else ''))}")
    assert len(found) == 2
    first, second = found
    assert (first.id, first.label, first.label_name) == ("test/0", 7, "7")
    assert first.inputs.mode == "L"
    assert numpy.array_equal(numpy.asarray(second.inputs), PIXELS[1])


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (idx(PIXELS), idx(numpy.zeros(3)), "2 images and .* 3 labels"),
        (b"nothing", idx(numpy.zeros(2)), "not an idx file"),
        (idx(numpy.zeros(2)), idx(numpy.zeros(2)), "3 dimensions"),
    ],
)
def test_other_files_are_refused(write: Write, images: bytes, labels: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(f"mnist:{write(files(images, labels))}")


@pytest.mark.parametrize("zipped", [False, True])
def test_a_file_that_was_cut_short_is_told(write: Write, zipped: bool) -> None:
    images = idx(numpy.random.default_rng(0).integers(0, 256, (2, 40, 40)))
    labels = idx(numpy.array([1, 2]))
    images = gzip.compress(images)[:-900] if zipped else images[:-3]
    path = write(files(images, b"", ".gz" if zipped else ""))
    name = f"t10k-labels-idx1-ubyte{'.gz' if zipped else ''}"
    write({name: gzip.compress(labels) if zipped else labels})
    with pytest.raises(RowError, match="image 1"):
        list(open_dataset(f"mnist:{path}"))


def test_a_wrong_label_and_missing_labels(write: Write) -> None:
    path = write(files(idx(PIXELS), idx(numpy.array([1, 12]))))
    with pytest.raises(RowError, match="image 1: the label is 12"):
        list(open_dataset(f"mnist:{path}"))
    write(files(idx(PIXELS), idx(numpy.array([1, 2]))[:-1]))
    with pytest.raises(InputError, match="ends after 1 of 2 labels"):
        list(open_dataset(f"mnist:{path}"))
    with pytest.raises(InputError, match="has no train-images-idx3-ubyte"):
        open_dataset(f"mnist:{path}", "train")


@pytest.mark.data
def test_the_published_digits(data: Path) -> None:
    found = open_dataset(f"mnist:{data}/mnist", "test")
    assert len(found) + len(open_dataset(f"mnist:{data}/mnist", "train")) == 70_000
    labels = Counter(s.label for s in found)
    assert labels[1] == 1135
    assert min(labels.values()) == labels[5] == 892
    first = next(iter(found))
    assert (first.label, first.inputs.size) == (7, (28, 28))
    assert 0.05 < numpy.asarray(first.inputs).mean() / 255 < 0.2
