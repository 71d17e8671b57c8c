"""Kosmos-2 (Peng et al., 2023): a set of queries, at tokens that an argument marks.

The model writes the smallest number of its dtype into a mask of the default dtype, which fails in
float64. A rule writes the smallest number of the mask. The tiny model is eager: transformers' fused
attention gives this model another output.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.image_items import query_items, tiny_pixels
from whyformer.models.families.soft import Soft
from whyformer.models.families.tiny import tiny_model
from whyformer.models.families.vision_language import TEXT, VISION, vision_language

_MARKS = "image_embeds_position_mask"


def full_within_range(ledger: Any, function: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Return a tensor full of a number, or of the smallest one that its dtype has."""
    size, value, *rest = args
    smallest = torch.finfo(kwargs.get("dtype") or torch.get_default_dtype()).min
    full: Tensor = function(size, max(value, smallest), *rest, **kwargs)
    return full


kosmos_2 = vision_language(
    "kosmos_2",
    title="Kosmos-2",
    model_types=("kosmos-2",),
    text=replace(TEXT, beside=("position_ids", _MARKS)),
    blocks="text_model.model.layers",
    soft=Soft(
        "image",
        "pixel_values",
        query_items(lambda config: config.latent_query_num),
        marks=_MARKS,
        tiny=tiny_pixels,
    ),
    rules={torch.full: full_within_range},
    tiny=tiny_model(
        "Kosmos2ForConditionalGeneration",
        text_config={
            "vocab_size": 60,
            "max_position_embeddings": 60,
            "embed_dim": 32,
            "layers": 2,
            "ffn_dim": 48,
            "attention_heads": 4,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
        vision_config=VISION,
        latent_query_num=4,
        attn_implementation="eager",
    ),
)
