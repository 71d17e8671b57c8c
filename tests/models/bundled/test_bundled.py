"""Bundled models: every folder with a bundled.json is one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from whyformer.errors import ModelError
from whyformer.models import bundled
from whyformer.models.bundled import models

FACTS: dict[str, Any] = {
    "name": "tones",
    "task": "text-classification",
    "stream": "text",
    "title": "Glad or sad?",
    "licence": "Apache-2.0",
    "accuracy": 0.93,
    "metric": "accuracy on 10 sentences",
    "samples": "samples.json",
}


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder in the place of the bundled models."""
    monkeypatch.setattr(bundled, "ROOT", tmp_path)
    return tmp_path


def store(root: Path, **facts: Any) -> Path:
    """Write the folder of a bundled model, and return it."""
    folder = root / str(facts.get("name", FACTS["name"]))
    folder.mkdir()
    (folder / "bundled.json").write_text(json.dumps({**FACTS, **facts}), encoding="utf-8")
    return folder


def test_a_folder_with_facts_is_a_model(root: Path) -> None:
    folder = store(root)
    (folder / "samples.json").write_text('["glad", "très sad"]', encoding="utf-8")
    (root / "__pycache__").mkdir()
    assert list(models()) == ["tones"]
    model = models()["tones"]
    assert model.folder == folder
    assert (model.title, model.task, model.stream) == ("Glad or sad?", FACTS["task"], "text")
    assert (model.licence, model.accuracy, model.metric) == (
        "Apache-2.0",
        0.93,
        "accuracy on 10 sentences",
    )
    assert model.samples() == ["glad", "très sad"]


def test_samples_in_a_folder_are_paths(root: Path) -> None:
    folder = store(root, name="digits", stream="image", samples="samples")
    (folder / "samples").mkdir()
    for name in ("b.png", "a.png", "note.txt"):
        (folder / "samples" / name).touch()
    assert models()["digits"].samples() == [folder / "samples" / n for n in ("a.png", "b.png")]


def test_an_empty_folder_has_no_models(root: Path) -> None:
    assert models() == {}


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"name": "x"}'])
def test_facts_that_cannot_be_read(root: Path, text: str) -> None:
    (store(root) / "bundled.json").write_text(text)
    with pytest.raises(ModelError, match=r"'tones/bundled\.json', cannot be read"):
        models()


@pytest.mark.parametrize("name", sorted(models()))
def test_shipped_models_have_samples(name: str) -> None:
    model = models()[name]
    samples = model.samples()
    assert samples
    assert all(Path(s).is_file() if model.stream == "image" else str(s).strip() for s in samples)
    assert 0 < model.accuracy <= 1
