"""Qwen2-VL (Wang et al., 2024): images of any size, a token for every 2 x 2 patches."""

from dataclasses import replace

from whyformer.models.families.image_items import packed_items, packed_patches, tiny_patches
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import DECODER
from whyformer.models.families.vision_language import VIDEO_ID, tiny_vlm, vision_language

KINDS = "mm_token_type_ids"
PACKED = (  # of models whose tower has an order of its own, or adds states above the first block
    Soft("image", "pixel_values", packed_items(), kinds=KINDS, tiny=tiny_patches),
    Soft(
        "video",
        "pixel_values_videos",
        packed_items("pixel_values_videos", "video_grid_thw"),
        "video_token_id",
        kinds=KINDS,
        kind=2,
    ),
)
# Positions of three axes: frames, rows and columns.
THREE_AXES = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [1, 1, 2]}
TEXT = {**DECODER, "rope_parameters": THREE_AXES}
VISION = {"depth": 2, "num_heads": 4, "patch_size": 4, "spatial_merge_size": 2}

qwen2_vl = vision_language(
    "qwen2_vl",
    title="Qwen2-VL",
    model_types=("qwen2_vl",),
    soft=(replace(PACKED[0], tower=Tower("visual.blocks", packed_patches)), PACKED[1]),
    tiny=tiny_vlm(
        "Qwen2VLForConditionalGeneration",
        {**VISION, "embed_dim": 32, "hidden_size": 32, "mlp_ratio": 2},
        TEXT,
        video_token_id=VIDEO_ID,
    ),
)
