"""Mistral Small 3.1 (2025): Pixtral's images of any size, squares of patches merged."""

from __future__ import annotations

from typing import Any

from whyformer.models.families.image_items import sized_items, tiny_sizes
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import DECODER, SIZES
from whyformer.models.families.vision_language import tiny_vlm, vision_language

PIXTRAL = {"model_type": "pixtral", **SIZES, "head_dim": 8, "image_size": 32, "patch_size": 4}


def _merge(config: Any) -> int:
    merge: int = config.spatial_merge_size
    return merge


mistral3 = vision_language(
    "mistral3",
    title="Mistral 3",
    model_types=("mistral3",),
    soft=Soft(
        "image",
        "pixel_values",
        sized_items(_merge),
        tiny=tiny_sizes,
        tower=Tower("vision_tower.**", sized_items()),
    ),
    tiny=tiny_vlm(
        "Mistral3ForConditionalGeneration",
        PIXTRAL,
        {**DECODER, "model_type": "mistral", "intermediate_size": 40},
        vision_feature_layer=-1,
    ),
)
