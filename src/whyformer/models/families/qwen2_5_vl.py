"""Qwen2.5-VL (Bai et al., 2025): Qwen2-VL with windows of attention in its vision tower."""

from whyformer.models.families.qwen2_vl import PACKED, TEXT, VISION
from whyformer.models.families.vision_language import VIDEO_ID, tiny_vlm, vision_language

qwen2_5_vl = vision_language(
    "qwen2_5_vl",
    title="Qwen2.5-VL",
    model_types=("qwen2_5_vl",),
    soft=PACKED,
    tiny=tiny_vlm(
        "Qwen2_5_VLForConditionalGeneration",
        {
            **VISION,
            "hidden_size": 32,
            "intermediate_size": 48,
            "out_hidden_size": 32,
            "window_size": 16,
            "fullatt_block_indexes": [1],
        },
        TEXT,
        video_token_id=VIDEO_ID,
    ),
)
