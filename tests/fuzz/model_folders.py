"""Model folders: an index of weights, a config or weights that were changed."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.fuzz.json_like import drawing, json_like
from tests.fuzz.mutate import json_bytes, mutate_bytes, mutate_json
from whyformer.errors import WhyformerError
from whyformer.models.families import families
from whyformer.models.load import load_folder
from whyformer.models.weight_files import INDEX, check_weight_files, read_shards

SHARDS = {"metadata": {"total_size": 1}, "weight_map": {"a": "model-1.safetensors", "b": "x"}}


def make_index(draw: random.Random, folder: Path) -> None:
    """An index of weights with other entries or bytes."""
    value = mutate_json(SHARDS, draw) if draw.random() < 0.5 else _similar_index()(draw)
    changed = json_bytes(value)
    content = mutate_bytes(changed, draw) if draw.random() < 0.3 else changed
    (folder / INDEX).write_bytes(content)


@cache
def _similar_index() -> Callable[[random.Random], Any]:
    return drawing(json_like(SHARDS))


def read_index(folder: Path) -> None:
    """Read the index alone, then as part of a folder."""
    (folder / "config.json").write_text("{}", "utf-8")
    with suppress(WhyformerError):
        check_weight_files(folder)
    read_shards(folder / INDEX)


@cache
def _model() -> dict[str, bytes]:
    """The files of a tiny model."""
    with TemporaryDirectory() as folder:
        build: Any = families["bert"].tiny
        build().save_pretrained(folder)
        return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


@cache
def _similar_config() -> Callable[[random.Random], Any]:
    return drawing(json_like(json.loads(_model()["config.json"])))


def make_folder(draw: random.Random, folder: Path) -> None:
    """The file of a model that was changed: its config or its weights."""
    files, kind = _model(), draw.random()
    if kind < 0.6:
        config = json_bytes(mutate_json(json.loads(files["config.json"]), draw))
        (folder / "config.json").write_bytes(config)
    elif kind < 0.8:
        (folder / "config.json").write_bytes(json_bytes(_similar_config()(draw)))
    else:
        changed = mutate_bytes(files["model.safetensors"], draw)
        (folder / "model.safetensors").write_bytes(changed)


def read_folder(folder: Path) -> None:
    """Load the model, with the other files as they should be."""
    for name, content in _model().items():
        if not (folder / name).exists():
            (folder / name).write_bytes(content)
    load_folder(folder)
