"""Scores that are NaN or infinite are drawn so that nobody overlooks them."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from PIL import Image

from whyformer.attribution import Attribution, views
from whyformer.render.colours import BROKEN

Make = Callable[..., Attribution]


def with_broken_score(attribution: Attribution, value: float) -> Attribution:
    scores = attribution.scores.clone()
    scores[0, 2] = value
    stream = replace(attribution.streams[attribution.main], scores=scores)
    return replace(attribution, streams={attribution.main: stream})


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_words_are_marked_everywhere(sentence: Make, value: float) -> None:
    broken = with_broken_score(sentence(), value)
    ground = ";".join(map(str, BROKEN))
    shown = views["terminal"].render(broken, width=80)
    assert f"48;2;{ground}" in shown
    assert "NaN or infinite" in shown
    page = views["html"].render(broken)
    assert ' broken"' in page
    assert "NaN or infinite" in page
    assert has_colour(views["png"].render(broken))


def test_finite_scores_are_not_marked(sentence: Make) -> None:
    assert "NaN or infinite" not in views["terminal"].render(sentence(), width=80)
    assert ' broken"' not in views["html"].render(sentence())
    assert not has_colour(views["png"].render(sentence()))


def test_patches_are_marked(image: Make) -> None:
    broken = with_broken_score(image(torch.rand(3, 3)), math.nan)
    assert "NaN or infinite" in views["terminal"].render(broken, width=80)
    assert "NaN or infinite" in views["html"].render(broken)
    assert has_colour(views["png"].render(broken))
    assert not has_colour(views["png"].render(image(torch.rand(3, 3))))


def has_colour(png: bytes) -> bool:
    """Whether a picture has the colour of broken scores."""
    with Image.open(io.BytesIO(png)) as opened:
        pixels = torch.frombuffer(bytearray(opened.convert("RGB").tobytes()), dtype=torch.uint8)
    return bool((pixels.view(-1, 3) == torch.tensor(BROKEN)).all(1).any())
