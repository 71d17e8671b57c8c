"""Which argument carries the tokens: the one that forward takes, whatever name is inherited."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.models.families.tiny import tiny_model
from whyformer.models.signature import main_argument, stream_of

VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 16,
    "patch_size": 4,
    "num_patches": 16,
}
CROSS = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "encoder_hidden_size": 16,
}


def build(name: str, **settings: Any) -> nn.Module:
    return tiny_model(name, **settings)().double().eval()


def first(output: Any) -> Tensor:
    return output[0][:, 0].sum(1)


def test_an_inherited_name_that_forward_does_not_take_is_not_used() -> None:
    model = build("Idefics3VisionTransformer", **VISION)
    assert model.main_input_name == "input_ids"
    assert (main_argument(model), stream_of(model, None)) == ("pixel_values", "image")
    pixels = torch.rand(2, 3, 16, 16).double()
    a = wf.explain({"pixel_values": pixels}, model, target=first)
    assert (a.main, a.streams["image"].grid) == ("image", (4, 4))


def test_the_tokens_of_a_query_former_are_its_queries_and_a_note_says_so() -> None:
    model = build("Blip2QFormerModel", **CROSS)
    given = {"query_embeds": torch.rand(2, 3, 16), "encoder_hidden_states": torch.rand(2, 5, 16)}
    a = wf.explain(given, model, method="gradient_x_input", target=first)
    assert a.scores.shape == (2, 3)
    assert any("encoder_hidden_states" in reason.text for reason in a.trust.reasons)


@pytest.mark.parametrize("samples", [2, 3])  # 3 samples are not one image with 3 channels
def test_pixel_values_that_are_patches_are_tokens(samples: int) -> None:
    model = build("Siglip2VisionModel", **VISION)
    mask = torch.ones(samples, 6, dtype=torch.long)
    mask[1, 4:] = 0
    given = {
        "pixel_values": torch.rand(samples, 6, 48).double(),
        "pixel_attention_mask": mask,
        "spatial_shapes": torch.tensor([[2, 3], [2, 2], [2, 3]][:samples]),
    }
    a = wf.explain(given, model, method="gradient_x_input", target=first)
    assert a.scores.shape == (samples, 6)
    assert not a.scores[1, 4:].any()
