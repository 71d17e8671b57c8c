"""What the user passed is told apart without running anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image

from whyformer.errors import InputError
from whyformer.inputs.kinds import kind_of, listed

IMAGE = Image.new("L", (2, 2))


@pytest.mark.parametrize(
    ("inputs", "stream", "kind"),
    [
        ("a film", None, "text"),
        ("digit.png", None, "image"),
        ("DIGIT.JPEG", None, "image"),
        ("one line\nof a.png", None, "text"),
        ("digit.png", "text", "text"),
        ("digit", "image", "image"),
        (Path("digit"), None, "image"),
        (IMAGE, None, "image"),
        ([IMAGE, "a.png", Path("b")], None, "image"),
        (("a.png", "b.png"), None, "image"),
        (("good", "film"), None, "text"),
        ([("good", "film")], None, "text"),
        (torch.ones(1, 2), None, "tensor"),
        (numpy.ones((1, 2)), None, "tensor"),
        ({"input_ids": 1}, None, "mapping"),
    ],
)
def test_kind(inputs: Any, stream: str | None, kind: str) -> None:
    assert kind_of(inputs, stream) == kind


def test_samples() -> None:
    assert listed("a") == ["a"]
    assert listed(("a", "b")) == [("a", "b")]
    assert listed(("a", "b", "c")) == ["a", "b", "c"]
    assert listed(("a.png", "b.png")) == ["a.png", "b.png"]
    assert listed(("a", "b"), "image") == ["a", "b"]


def test_text_and_images_in_one_list() -> None:
    with pytest.raises(InputError, match="mix image and text"):
        kind_of(["a film", IMAGE])
