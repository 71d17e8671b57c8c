"""Gemma 3 with images (Kamath et al., 2025): squares of SigLIP's patches, averaged."""

from __future__ import annotations

from typing import Any

from whyformer.models.families.image_items import grid_items, patch_items, tiny_pixels
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import DECODER
from whyformer.models.families.vision_language import SIGLIP, tiny_vlm, vision_language


def _pooled(config: Any) -> int:
    patches: int = config.vision_config.image_size // config.vision_config.patch_size
    return patches // int(config.mm_tokens_per_image**0.5)


gemma3_vision = vision_language(
    "gemma3_vision",
    title="Gemma 3 with images",
    model_types=("gemma3",),
    soft=Soft(
        "image",
        "pixel_values",
        grid_items(_pooled),
        kinds="token_type_ids",
        needs_kinds=False,
        tiny=tiny_pixels,
        tower=Tower("vision_tower.**", patch_items()),
    ),
    tiny=tiny_vlm(
        "Gemma3ForConditionalGeneration",
        {**SIGLIP, "image_size": 16},
        {"model_type": "gemma3_text", **DECODER, "query_pre_attn_scalar": 8, "sliding_window": 32},
        mm_tokens_per_image=4,
        boi_token_index=52,
        eoi_token_index=53,
    ),
)
