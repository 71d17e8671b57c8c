"""Idefics2 (Laurençon et al., 2024): a set of queries for each image, without places."""

from whyformer.models.families.image_items import patch_items, query_items, tiny_batches
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import DECODER
from whyformer.models.families.vision_language import VISION, tiny_vlm, vision_language

idefics2 = vision_language(
    "idefics2",
    title="Idefics2",
    model_types=("idefics2",),
    blocks="text_model.layers",
    soft=Soft(
        "image",
        "pixel_values",
        query_items(lambda config: config.perceiver_config.resampler_n_latents),
        tiny=tiny_batches,
        tower=Tower("vision_model.encoder.layers", patch_items()),
    ),
    tiny=tiny_vlm(
        "Idefics2ForConditionalGeneration",
        VISION,
        {"model_type": "mistral", **DECODER},
        perceiver_config={
            "hidden_size": 32,
            "resampler_n_latents": 4,
            "resampler_depth": 1,
            "resampler_n_heads": 4,
            "resampler_head_dim": 8,
            "num_key_value_heads": 2,
        },
    ),
)
