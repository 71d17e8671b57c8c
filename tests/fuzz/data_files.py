"""Datasets in published formats, and Parquet files, with other bytes."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from PIL import Image

from tests.datasets.test_damage import FORMATS
from tests.fuzz.json_like import drawing, json_like
from tests.fuzz.mutate import json_bytes, mutate_bytes
from whyformer.datasets import open_dataset

JSON_FORMATS = ("coco", "jsonl", "eraser")
NAME = "name.txt"  # the file that names the format


def make(draw: random.Random, folder: Path) -> None:
    """A dataset with other bytes."""
    name = draw.choice([*FORMATS])
    content = FORMATS[name][1].encode()
    _write(name, mutate_bytes(content, draw), folder)


def make_similar(draw: random.Random, folder: Path) -> None:
    """A dataset of JSON with other values."""
    name = draw.choice(JSON_FORMATS)
    _write(name, json_bytes(_similar(name)(draw)) + b"\n", folder)


@cache
def _similar(name: str) -> Callable[[random.Random], Any]:
    return drawing(json_like(json.loads(FORMATS[name][1].splitlines()[0])))


def _write(name: str, content: bytes, folder: Path) -> None:
    (folder / NAME).write_text(name, "utf-8")
    (folder / FORMATS[name][0]).write_bytes(content)


def read(folder: Path) -> None:
    """Read all samples and their masks."""
    name = (folder / NAME).read_text("utf-8")
    for other, value in FORMATS[name][2].items():
        (folder / other).parent.mkdir(parents=True, exist_ok=True)
        (folder / other).write_bytes(value.encode() if isinstance(value, str) else value)
    Image.new("RGB", (4, 3)).save(folder / "a.jpg")
    for sample in open_dataset(f"{name}:{folder}", on_error="skip"):
        for thing in sample.extras.get("objects", ()):
            thing.mask()


@cache
def _parquet() -> bytes:
    import pyarrow
    from pyarrow import parquet

    out = io.BytesIO()
    parquet.write_table(pyarrow.table({"text": ["a", "b"] * 50, "label": [0, 1] * 50}), out)
    return out.getvalue()


def make_parquet(draw: random.Random, folder: Path) -> None:
    """A Parquet file with other bytes."""
    (folder / "all.parquet").write_bytes(mutate_bytes(_parquet(), draw))


def read_parquet(folder: Path) -> None:
    """Read all rows."""
    list(open_dataset(f"parquet:{folder}", on_error="skip"))
