"""A trained model on real images: maps are class-specific, and find the animal."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from benchmarks import segmentation

pytestmark = pytest.mark.data
SUBSET = 24  # one image of every breed


@cache
def deit(data: Path) -> tuple[nn.Module, Tensor]:
    """(the model, a few normalised images)."""
    model, offset, deviation = segmentation.model_and_norm(data / "deit-tiny")
    pixels = [pixels for pixels, _ in segmentation.samples(data / "pets-segmentation", 4)]
    return model, (torch.stack(pixels) - offset) / deviation


@cache
def measured(data: Path, *methods: str) -> dict[str, dict[str, Any]]:
    return segmentation.measure(data, list(methods), SUBSET)


@pytest.mark.parametrize("method", ["transformer_attribution", "partial_lrp", "full_lrp"])
def test_two_classes_in_one_image_give_different_maps(data: Path, method: str) -> None:
    model, images = deit(data)
    with torch.no_grad():
        best, second = model(images).logits.topk(2).indices.T
    maps = [
        wf.explain({"pixel_values": images}, model, method=method, target=c.tolist())
        for c in (best, second)
    ]
    assert not torch.equal(maps[0].target, maps[1].target)
    first, other = (a.scores for a in maps)
    difference = (first - other).abs().amax(1) / first.abs().amax(1)
    assert (difference > 0.05).all()


def test_raw_attention_knows_no_classes(data: Path) -> None:
    """A control for the test above: raw attention does not depend on the class."""
    model, images = deit(data)
    first, other = (
        wf.explain({"pixel_values": images}, model, method="raw_attention", target=c).scores
        for c in (0, 1)
    )
    assert torch.equal(first, other)


def test_a_batch_of_images_equals_one_at_a_time(data: Path) -> None:
    model, images = deit(data)
    together = wf.explain({"pixel_values": images}, model, method="transformer_attribution")
    for i in range(len(images)):
        one = {"pixel_values": images[i : i + 1]}
        alone = wf.explain(one, model, method="transformer_attribution").scores
        error = (together.scores[i] - alone[0]).abs().max() / alone.max()
        assert error < 1e-3  # float32, twelve layers


def test_maps_find_the_animal(data: Path) -> None:
    """24 images are too few for the dataset's figures: only bounds are checked."""
    found = measured(data, "transformer_attribution", "raw_attention")
    attribution, attention = found["transformer_attribution"], found["raw_attention"]
    assert attribution["images"] == SUBSET
    assert attribution["pixel_accuracy"] > 70
    assert attribution["miou"] > 53
    for figure in ("pixel_accuracy", "miou"):
        assert attribution[figure] > attention[figure] + 10
