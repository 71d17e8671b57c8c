"""LLaVA-OneVision (Li et al., 2024): LLaVA-NeXT's mosaic, smaller if it has many tiles; videos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whyformer.models.families.image_items import mosaic_items, tiny_tiles
from whyformer.models.families.llava_next import PINPOINTS
from whyformer.models.families.soft import Item, Panel, Soft, rectangle
from whyformer.models.families.vision_language import SIGLIP, VIDEO_ID, tiny_vlm, vision_language


def _video_items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    """Frames one below the other, each pooled to half its side, and an end of line."""
    side = -(-config.vision_config.image_size // config.vision_config.patch_size // 2)
    found = []
    for video in arguments["pixel_values_videos"]:
        cells = rectangle(len(video) * side, side)
        shown = video.movedim(1, 0).flatten(1, 2)
        entries = {"pixel_values_videos": 1}
        found.append(Item(cells.numel() + 1, (Panel(cells, shown),), entries))
    return found


llava_onevision = vision_language(
    "llava_onevision",
    title="LLaVA-OneVision",
    model_types=("llava_onevision",),
    soft=(
        Soft("image", "pixel_values", mosaic_items, tiny=tiny_tiles),
        Soft("video", "pixel_values_videos", _video_items, "video_token_id"),
    ),
    tiny=tiny_vlm(
        "LlavaOnevisionForConditionalGeneration",
        SIGLIP,
        vision_feature_layer=-1,
        image_grid_pinpoints=PINPOINTS,
        video_token_index=VIDEO_ID,
        video_token_id=VIDEO_ID,
    ),
)
