"""The kind of the inputs is detected without running a model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from PIL import Image

from whyformer.errors import InputError
from whyformer.inputs.detect import kind_of, samples_of

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
        (("what is it?", IMAGE), None, "text+image"),
        ((IMAGE, "what is it?"), None, "text+image"),
        (("what is it?", Path("scene")), None, "text+image"),
        (("scene.png", "what is it?"), None, "text+image"),
        ([("what is it?", IMAGE), (Path("scene"), "and this?")], None, "text+image"),
        ([["what is it?", "scene.png"]], None, "text+image"),
        ({"text": "what is it?", "image": "scene"}, None, "text+image"),
        ({"text": ["what?", "where?"], "image": IMAGE}, None, "text+image"),
        ([{"text": "what is it?", "image": IMAGE}], None, "text+image"),
        ({"text": torch.ones(1, 2), "image": torch.ones(1, 2)}, None, "mapping"),
        ({"text": "what is it?", "image": "scene"}, "tokens", "mapping"),
        (("what is it?", "scene.png"), "text", "text"),
        (("scene", "scene.png"), "image", "image"),
    ],
)
def test_kind(inputs: Any, stream: str | None, kind: str) -> None:
    assert kind_of(inputs, stream) == kind


def test_samples() -> None:
    assert samples_of("a") == ["a"]
    assert samples_of(("a", "b")) == [("a", "b")]
    assert samples_of(("a", "b", "c")) == ["a", "b", "c"]
    assert samples_of(("a.png", "b.png")) == ["a.png", "b.png"]
    assert samples_of(("a", "b"), "image") == ["a", "b"]
    assert samples_of(("a", "b.png"), "image") == ["a", "b.png"]
    assert samples_of(("a", IMAGE)) == [("a", IMAGE)]
    assert samples_of([("a", IMAGE), ("b", IMAGE)]) == [("a", IMAGE), ("b", IMAGE)]


def test_text_and_images_in_one_list() -> None:
    with pytest.raises(InputError, match="mix image and text"):
        kind_of(["a film", IMAGE])
    with pytest.raises(InputError, match=r"mix text and text\+image"):
        kind_of(["a film", ("what is it?", IMAGE)])


@pytest.mark.parametrize("stream", ["text", "tokens"])
def test_a_model_of_one_stream_is_refused_both(stream: str) -> None:
    with pytest.raises(InputError, match=f"pair text with an image and the model reads {stream}"):
        kind_of(("what is it?", IMAGE), stream)
