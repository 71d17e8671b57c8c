"""BLIP-2 (Li et al., 2023): a set of queries reads the image, without places.

With T5 as its language model, its text and its answer are two stacks: see blip_2_t5.py.
"""

from __future__ import annotations

from typing import Any

from whyformer.models.families.image_items import patch_items, query_items, tiny_pixels
from whyformer.models.families.soft import Soft, Tower
from whyformer.models.families.tiny import SIZES
from whyformer.models.families.vision_language import VISION, tiny_vlm, vision_language

QUERIES = Soft(
    "image",
    "pixel_values",
    query_items(lambda config: config.num_query_tokens),
    tiny=tiny_pixels,
    tower=Tower("vision_model.encoder.layers", patch_items(lambda config: 1)),
)
QFORMER = {**SIZES, "encoder_hidden_size": 32, "vocab_size": 60, "max_position_embeddings": 40}
OPT = {
    "model_type": "opt",
    **{k: v for k, v in SIZES.items() if k != "intermediate_size"},
    "ffn_dim": 48,
    "word_embed_proj_dim": 32,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "pad_token_id": 1,
    "bos_token_id": 2,
    "eos_token_id": 2,
}


def has_decoder(config: Any) -> bool:
    """Whether the language model is a decoder."""
    return bool(config.use_decoder_only_language_model)


blip_2 = vision_language(
    "blip_2",
    title="BLIP-2 with a decoder",
    model_types=("blip-2",),
    classes=("Blip2ForConditionalGeneration",),
    when=has_decoder,
    blocks="language_model.**",
    soft=QUERIES,
    tiny=tiny_vlm(
        "Blip2ForConditionalGeneration", VISION, OPT, qformer_config=QFORMER, num_query_tokens=4
    ),
)
