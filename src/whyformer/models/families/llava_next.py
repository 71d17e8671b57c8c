"""LLaVA-NeXT (Liu et al., 2024): an image as a mosaic of tiles, after an overview."""

from whyformer.models.families.image_items import mosaic_items, tiny_tiles
from whyformer.models.families.soft import Soft
from whyformer.models.families.vision_language import CLIP, tiny_vlm, vision_language

PINPOINTS = [[12, 24], [24, 12]]

llava_next = vision_language(
    "llava_next",
    title="LLaVA-NeXT",
    model_types=("llava_next",),
    soft=Soft("image", "pixel_values", mosaic_items, tiny=tiny_tiles),
    tiny=tiny_vlm(
        "LlavaNextForConditionalGeneration",
        CLIP,
        vision_feature_layer=-1,
        image_grid_pinpoints=PINPOINTS,
    ),
)
