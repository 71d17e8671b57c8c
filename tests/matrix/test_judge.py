"""The judge of the matrix: it compares scores with the right places and with all maps."""

from __future__ import annotations

import pytest
import torch

from tests.matrix.builder import build
from tests.matrix.by_hand import attention_maps
from tests.matrix.cells import headless
from tests.matrix.facts import watch

pytestmark = pytest.mark.filterwarnings("ignore")


def test_a_text_with_image_features_is_watched_where_its_tokens_enter() -> None:
    built = build("llava")
    inputs = built.inputs((7, 7))
    attended, _ = watch(built.model, inputs)
    assert "vision_tower" in attended.paths[0], "the image's encoder runs first"
    assert all("language_model" in block for block in attended.blocks)
    assert attended.first[-1].shape[:2] == inputs["input_ids"].shape


@pytest.mark.parametrize("model_type", ["diffllama", "lilt"])
def test_maps_that_one_module_uses_together_are_one_layer(model_type: str) -> None:
    """Both return one map of two per layer, and the second one mixes tokens as well."""
    built = build(model_type)
    layers = attention_maps(built.model, built.inputs((7, 7)), headless)
    assert layers is not None
    assert len(layers) == 2
    attention, gradient = layers[0]
    assert attention.shape[1] == 2 * built.model.config.num_attention_heads
    first, second = gradient.chunk(2, dim=1)
    assert not torch.allclose(first, second)
    assert second.any()
