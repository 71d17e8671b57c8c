"""Weights are read from safetensors files only, whatever an index names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from whyformer.errors import ModelError
from whyformer.models.families import families
from whyformer.models.load import load_folder, load_model


@pytest.fixture
def sharded(tmp_path: Path) -> Path:
    """A model in several shards, with an index."""
    families["bert"].tiny().save_pretrained(tmp_path, max_shard_size="4KB")
    assert (tmp_path / "model.safetensors.index.json").is_file()
    return tmp_path


def change_index(folder: Path, content: str | bytes) -> None:
    data = content.encode() if isinstance(content, str) else content
    (folder / "model.safetensors.index.json").write_bytes(data)


def test_a_sharded_model_is_loaded(sharded: Path) -> None:
    assert load_folder(sharded) is not None


@pytest.mark.parametrize("name", ["w.bin", "w.pt", "../w.safetensors", "/w.safetensors", 7, None])
def test_an_index_that_names_another_file_is_refused(sharded: Path, name: object) -> None:
    torch.save({}, sharded / "w.bin")
    index = json.loads((sharded / "model.safetensors.index.json").read_text())
    first = next(iter(index["weight_map"]))
    index["weight_map"][first] = name
    change_index(sharded, json.dumps(index))
    with pytest.raises(ModelError, match=r"only read from \.safetensors files"):
        load_model(str(sharded))


MALFORMED = (
    "",
    "{",
    "[]",
    "{}",
    '{"weight_map": 3}',
    '{"weight_map": {"a": ["b"]}}',
    b"\xff\xfe",
    "[" * 99_999,
)


@pytest.mark.parametrize("content", MALFORMED)
def test_a_malformed_index_is_refused(sharded: Path, content: str | bytes) -> None:
    change_index(sharded, content)
    with pytest.raises(ModelError, match="is not an index of weights"):
        load_model(str(sharded))


def test_an_index_without_files_is_refused(sharded: Path) -> None:
    change_index(sharded, '{"weight_map": {}}')
    with pytest.raises(ModelError, match="names no file"):
        load_model(str(sharded))


def test_a_missing_shard_is_named(sharded: Path) -> None:
    shard = sorted(sharded.glob("model-*.safetensors"))[0]
    shard.unlink()
    with pytest.raises(ModelError, match=shard.name):
        load_model(str(sharded))
