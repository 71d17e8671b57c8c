"""Damaged files end in our errors, whatever the library that reads them raises."""

from __future__ import annotations

import contextlib
import gzip
import random
import struct
import tracemalloc
from pathlib import Path

import numpy
import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from tests.datasets.conftest import Write
from tests.datasets.test_mnist import PIXELS, files, idx
from whyformer.datasets import open_dataset
from whyformer.datasets.mask import Mask
from whyformer.errors import InputError, WhyformerError


def mutate(content: bytes, seed: int) -> bytes:
    """The bytes with some of them changed, cut out or doubled."""
    draw, data = random.Random(seed), bytearray(content)
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(data))
        kind = draw.randrange(3)
        if kind == 0:
            data[at] = draw.randrange(256)
        elif kind == 1:
            del data[at : at + draw.randint(1, 40)]
        else:
            data[at:at] = data[at : at + draw.randint(1, 40)]
    return bytes(data)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("parquet") / "test.parquet"
    columns = {"text": [f"sentence {i}" for i in range(400)], "label": [i % 2 for i in range(400)]}
    pyarrow.parquet.write_table(pyarrow.table(columns), file, row_group_size=100)
    return file.read_bytes()


@pytest.mark.parametrize("seed", range(60))
def test_damaged_parquet(table: bytes, tmp_path: Path, seed: int) -> None:
    (tmp_path / "test.parquet").write_bytes(mutate(table, seed))
    for on_error in ("skip", "raise"):
        with contextlib.suppress(WhyformerError):
            list(open_dataset(f"parquet:{tmp_path / 'test.parquet'}", on_error=on_error))


def test_rows_before_the_damage_are_read(table: bytes, tmp_path: Path) -> None:
    damaged = bytearray(table)
    start = damaged.index(b"sentence 300") - 20
    damaged[start : start + 200] = b"\xff" * 200
    (tmp_path / "test.parquet").write_bytes(damaged)
    found = open_dataset(f"parquet:{tmp_path / 'test.parquet'}", on_error="skip")
    assert 100 <= len([*found]) < 400
    assert "cannot be read from here on" in str(found.report.skipped[-1])
    with pytest.raises(InputError, match="cannot be read from here on"):
        list(open_dataset(f"parquet:{tmp_path / 'test.parquet'}"))


@pytest.mark.parametrize("seed", range(60))
def test_damaged_masks(tmp_path: Path, seed: int) -> None:
    file = tmp_path / "mask.png"
    Image.fromarray(numpy.eye(32, dtype=numpy.uint8)).save(file)
    file.write_bytes(mutate(file.read_bytes(), seed))
    with contextlib.suppress(WhyformerError):
        Mask(file).read()


def test_a_missing_mask_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.png is not a mask"):
        Mask(tmp_path / "none.png").read()


def test_a_count_of_labels_that_no_file_has_takes_no_memory(write: Write) -> None:
    count = 4_000_000_000
    images = bytes((0, 0, 8, 3)) + struct.pack(">3I", count, 3, 4)
    labels = bytes((0, 0, 8, 1)) + struct.pack(">I", count)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="at most 10,000,000 are read"):
            open_dataset(f"mnist:{write(files(images, labels))}")
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("which", [0, 1])
def test_a_wrong_checksum_is_noticed(write: Write, which: int) -> None:
    parts = [gzip.compress(idx(PIXELS)), gzip.compress(idx(numpy.array([7, 0])))]
    broken = bytearray(parts[which])
    broken[-6] ^= 255  # inside the CRC
    parts[which] = bytes(broken)
    found = open_dataset(f"mnist:{write(files(parts[0], parts[1], '.gz'))}")
    with pytest.raises(InputError, match="CRC"):
        list(found)
