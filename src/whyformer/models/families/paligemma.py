"""PaliGemma (Beyer et al., 2024): SigLIP's patches before a text that is read in both directions.

`token_type_ids` are 0 in the text and 1 in the answer, which is read from left to right.
"""

from whyformer.models.families.image_items import grid_items, patch_items, tiny_pixels
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import DECODER
from whyformer.models.families.vision_language import IMAGE_ID, SIGLIP, tiny_vlm, vision_language

paligemma = vision_language(
    "paligemma",
    title="PaliGemma",
    model_types=("paligemma",),
    soft=Soft(
        "image",
        "pixel_values",
        grid_items(),
        kinds="token_type_ids",
        kind=0,
        needs_kinds=False,
        tiny=tiny_pixels,
        tower=Tower("vision_tower.**", patch_items()),
    ),
    answer={"token_type_ids": 1},
    tiny=tiny_vlm(
        "PaliGemmaForConditionalGeneration",
        {**SIGLIP, "projection_dim": 32},
        {"model_type": "gemma", **DECODER},
        image_token_index=IMAGE_ID,
        projection_dim=32,
        hidden_size=32,
    ),
)
