"""Sizes decide which inputs share a batch; no input raises an error here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from whyformer.inputs.sizes import ALONE, BOTH, IMAGE, PAIR, TEXT, Size, input_sizes

PICTURE = Image.new("RGB", (4, 4))


@pytest.mark.parametrize(
    ("item", "stream", "found"),
    [
        ("film film", "text", Size(TEXT, 4)),
        (("film", "film film"), "text", Size(PAIR, 5)),
        ({"text": "film", "image": PICTURE}, "text", Size(BOTH, 3)),
        ((PICTURE, "film film"), "text", Size(BOTH, 4)),
        (PICTURE, "image", Size(IMAGE)),
        (Path("film.png"), "image", Size(IMAGE)),
        ("film", "image", Size(IMAGE)),
        (torch.zeros(2, 3), "text", Size(ALONE)),
        ({"input_ids": torch.zeros(2, 3)}, "text", Size(ALONE)),
        ("", "text", Size(TEXT)),
        ("film \ud800", "text", Size(TEXT, 4)),
        (17, "text", Size(IMAGE)),
        (None, "text", Size(IMAGE)),
    ],
)
def test_what_an_input_is(wordpiece: Any, item: Any, stream: str, found: Size) -> None:
    assert input_sizes([item], wordpiece, stream) == [found]


def test_sizes_come_in_the_order_of_their_inputs(wordpiece: Any) -> None:
    items = ["film film film", PICTURE, "film", ("film", "film")]
    found = [size.tokens for size in input_sizes(items, wordpiece, "text")]
    assert found == [5, 1, 3, 4]


def test_without_a_tokenizer_characters_count() -> None:
    assert input_sizes(["film", "a film"], None, "text") == [Size(TEXT, 4), Size(TEXT, 6)]
