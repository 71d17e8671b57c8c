"""Idefics3 and SmolVLM (Laurençon et al., 2024; Marafioti et al., 2025): tiles between text.

A tile's place in the mosaic stands in the text before it, as <row_1_col_2>.
"""

from __future__ import annotations

from typing import Any

from whyformer.models.families.image_items import grid_items, patch_items, tiny_batches
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.vision_language import VISION, tiny_vlm, vision_language


def _scale(config: Any) -> int:
    scale: int = config.scale_factor
    return scale


_SIZES: dict[str, Any] = {"scale_factor": 2, "pad_token_id": 0}
_VISION = {**VISION, "image_size": 16}

idefics3 = vision_language(
    "idefics3",
    title="Idefics3, SmolVLM",
    model_types=("idefics3", "smolvlm"),
    blocks="text_model.layers",
    soft=Soft(
        "image",
        "pixel_values",
        grid_items(_scale),
        named_tiles=True,
        tiny=tiny_batches,
        tower=Tower("vision_model.encoder.layers", patch_items()),
    ),
    tiny=tiny_vlm("Idefics3ForConditionalGeneration", _VISION, **_SIZES),
    variants={"idefics3_smolvlm": tiny_vlm("SmolVLMForConditionalGeneration", _VISION, **_SIZES)},
)
