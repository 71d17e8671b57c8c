"""InternVL (Chen et al., 2024; Zhu et al., 2025): pixel shuffle, tiles one after the other.

The model is not told how the tiles of an image stand, so they are shown one below the other.
"""

from whyformer.models.families.image_items import grid_items, patch_items, tiny_pixels
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import DECODER
from whyformer.models.families.vision_language import VISION, tiny_vlm, vision_language

internvl = vision_language(
    "internvl",
    title="InternVL",
    model_types=("internvl",),
    soft=Soft(
        "image",
        "pixel_values",
        grid_items(lambda config: round(1 / config.downsample_ratio)),
        tiled=True,
        tiny=tiny_pixels,
        tower=Tower("vision_tower.encoder.layer", patch_items(lambda config: 1)),
    ),
    tiny=tiny_vlm(
        "InternVLForConditionalGeneration",
        {**VISION, "image_size": [16, 16], "patch_size": [4, 4]},
        {"model_type": "qwen2", **DECODER},
    ),
)
