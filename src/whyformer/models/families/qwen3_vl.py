"""Qwen3-VL (Bai et al., 2025): Qwen2-VL whose first blocks also read deeper image features.

What those blocks add to the image's tokens is the sink "constant".
"""

from whyformer.models.families.qwen2_vl import PACKED, TEXT, VISION
from whyformer.models.families.vision_language import VIDEO_ID, tiny_vlm, vision_language

qwen3_vl = vision_language(
    "qwen3_vl",
    title="Qwen3-VL",
    model_types=("qwen3_vl",),
    soft=PACKED,
    tiny=tiny_vlm(
        "Qwen3VLForConditionalGeneration",
        {
            **VISION,
            "hidden_size": 32,
            "intermediate_size": 48,
            "out_hidden_size": 32,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
        TEXT,
        video_token_id=VIDEO_ID,
    ),
)
