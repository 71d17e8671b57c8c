"""`whyformer explain` with a language model that reads images at placeholders in its text."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whyformer as wf
from tests.cli.test_answer_command import refused

Run = Callable[..., Any]
QUESTION = "what colour is the cross?"
IMAGE = {"type": "image", "image": "scene.png"}
MODEL = "--model vlm_shapes --save a.safetensors"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    """A working folder with a scene, and chats about it."""
    sample = wf.models()["vlm_shapes"].folder / "samples" / "scene1.png"
    shutil.copy(sample, tmp_path / "scene.png")
    text = {"type": "text", "text": QUESTION}
    for name, content in (("chat", [IMAGE, text]), ("plain", QUESTION)):
        messages = [{"role": "user", "content": content}]
        (tmp_path / f"{name}.json").write_text(json.dumps(messages), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "line", [f"explain '{QUESTION}' --image scene.png", "explain --chat chat.json"]
)
def test_a_question_about_an_image(run: Run, folder: Path, line: str) -> None:
    done = run(f"{line} {MODEL}")
    assert done.exit_code == 0, done.output
    a = wf.load(folder / "a.safetensors")
    inputs = {"text": QUESTION, "image": folder / "scene.png"}
    expected = wf.explain(inputs, "vlm_shapes")
    assert a.labels == expected.labels
    assert a.streams["image"].scores.tolist() == expected.streams["image"].scores.tolist()


@pytest.mark.parametrize("line", [f"explain '{QUESTION}'", "explain --chat plain.json"])
def test_a_question_without_an_image(run: Run, folder: Path, line: str) -> None:
    done = run(f"{line} {MODEL}")
    assert done.exit_code == 0, done.output
    assert "image" not in wf.load(folder / "a.safetensors").streams


def test_an_image_alone(run: Run) -> None:
    told = run(f"explain --image scene.png {MODEL}")
    refused(told, "vlm_shapes reads text and images. Also pass a text as INPUT")


def test_an_image_for_a_model_of_text(run: Run) -> None:
    told = run(f"explain '{QUESTION}' --image scene.png --model reader")
    refused(told, "reader reads text, but was given an image", "vlm_shapes")
