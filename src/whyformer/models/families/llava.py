"""LLaVA (Liu et al., 2023): patches of a vision tower at placeholders in the text.

With Pixtral as its tower (Agrawal et al., 2024) images have any size; the ends of lines are text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyformer.models.families.image_items import (
    grid_items,
    patch_items,
    sized_items,
    tiny_pixels,
    tower_class_tokens,
)
from whyformer.models.families.soft import Item, Soft, Tower
from whyformer.models.families.vision_language import CLIP, SIGLIP, tiny_vlm, vision_language


def _items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    sized = arguments.get("image_sizes") is not None
    return (sized_items() if sized else grid_items())(config, arguments)


def _patches(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    sized = arguments.get("image_sizes") is not None
    return (sized_items() if sized else patch_items(tower_class_tokens))(config, arguments)


llava = vision_language(
    "llava",
    title="LLaVA, Pixtral",
    model_types=("llava",),
    soft=Soft(
        "image",
        "pixel_values",
        _items,
        tiny=tiny_pixels,
        tower=Tower("vision_tower.**", _patches),
    ),
    tiny=tiny_vlm("LlavaForConditionalGeneration", CLIP, vision_feature_layer=-1),
    variants={
        # A tower without a class token, all of whose tokens are read.
        "llava_siglip": tiny_vlm(
            "LlavaForConditionalGeneration",
            SIGLIP,
            vision_feature_layer=-1,
            vision_feature_select_strategy="full",
        ),
    },
)
