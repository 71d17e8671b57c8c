"""Florence-2 (Xiao et al., 2024): BART reads the image's features at placeholders in its text."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.encoder_decoder import SIZES, encoder_decoder
from whyformer.models.families.family import Source
from whyformer.models.families.soft import Item, Panel, Soft, rectangle
from whyformer.models.families.tiny import tiny_model
from whyformer.models.families.vision_language import IMAGE_ID

_PART = "model.language_model"


def _items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    """The mean of the image, then a token for every step of the convolutions."""
    step = prod(config.vision_config.patch_stride)
    found = []
    for image in arguments["pixel_values"]:
        rows, columns = (-(-side // step) for side in image.shape[-2:])
        cells = rectangle(rows, columns, 1)
        found.append(Item(1 + cells.numel(), (Panel(cells, image),), {"pixel_values": 1}))
    return found


def _tiny(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    images = [torch.randn(3, 16, 16, generator=generator) for _ in range(samples)]
    return {"pixel_values": torch.stack(images)}


florence2 = encoder_decoder(
    "florence2",
    title="Florence-2",
    model_types=("florence2",),
    classes=("Florence2ForConditionalGeneration",),
    source=Source("text", "input_ids", mask="attention_mask", part=_PART),
    generated=Source(
        "generated",
        "decoder_input_ids",
        mask="decoder_attention_mask",
        part=_PART,
        optional=True,
    ),
    encoder="language_model.encoder.layers",
    decoder="language_model.decoder.layers",
    within="language_model.decoder.layers.*.self_attn",
    between="language_model.decoder.layers.*.encoder_attn",
    merged=True,
    soft=(Soft("image", "pixel_values", _items, tiny=_tiny),),
    tiny=tiny_model(
        "Florence2ForConditionalGeneration",
        text_config={"model_type": "bart", **SIZES},
        vision_config={
            "depths": [1, 1],
            "patch_size": [3, 3],
            "patch_stride": [2, 2],
            "patch_padding": [1, 1],
            "patch_prenorm": [False, True],
            "embed_dim": [16, 32],
            "num_heads": [2, 4],
            "num_groups": [2, 4],
            "window_size": 2,
            "projection_dim": 32,
        },
        image_token_id=IMAGE_ID,
    ),
)
