"""Kosmos-2 (Peng et al., 2023): a set of queries, at tokens that an argument marks."""

from dataclasses import replace

from whyformer.models.families.image_items import query_items, tiny_pixels
from whyformer.models.families.soft import Soft
from whyformer.models.families.vision_language import TEXT, VISION, vision_language
from whyformer.models.families.tiny import tiny_model

_MARKS = "image_embeds_position_mask"

kosmos_2 = vision_language(
    "kosmos_2",
    title="Kosmos-2",
    model_types=("kosmos-2",),
    text=replace(TEXT, beside=("position_ids", _MARKS)),
    blocks="text_model.model.layers",
    soft=Soft(
        "image",
        "pixel_values",
        query_items(lambda config: config.latent_query_num),
        marks=_MARKS,
        tiny=tiny_pixels,
    ),
    tiny=tiny_model(
        "Kosmos2ForConditionalGeneration",
        text_config={
            "vocab_size": 60,
            "max_position_embeddings": 60,
            "embed_dim": 32,
            "layers": 2,
            "ffn_dim": 48,
            "attention_heads": 4,
            "pad_token_id": 1,
            "bos_token_id": 0,
            "eos_token_id": 2,
        },
        vision_config=VISION,
        latent_query_num=4,
    ),
)
