"""BLIP-2 with T5 (Li et al., 2023): the queries of the image are read by T5's encoder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from whyformer.models.families.blip_2 import QFORMER, QUERIES, has_decoder
from whyformer.models.families.encoder_decoder import encoder_decoder
from whyformer.models.families.family import Family, Source
from whyformer.models.families.soft import Soft
from whyformer.models.families.t5 import BLOCKS, SIZES
from whyformer.models.families.vision_language import VISION, tiny_vlm

_PART = "language_model"


def has_encoder(config: Any) -> bool:
    """Whether the language model has an encoder."""
    return not has_decoder(config)


def queries_before_t5(name: str, class_name: str, soft: Soft, **facts: Any) -> Family:
    """Register a family whose queries stand at placeholders in the text of a T5."""
    return encoder_decoder(
        name,
        classes=(class_name,),
        when=has_encoder,
        source=Source("text", "input_ids", mask="attention_mask", part=_PART),
        generated=Source(
            "generated",
            "decoder_input_ids",
            mask="decoder_attention_mask",
            part=_PART,
            optional=True,
        ),
        merged=True,
        soft=(soft,),
        tiny=_tiny(class_name),
        **{part: f"{_PART}.{path}" for part, path in BLOCKS.items()},
        **facts,
    )


def _tiny(class_name: str) -> Callable[..., nn.Module]:
    text = {"model_type": "t5", **SIZES}
    return tiny_vlm(class_name, VISION, text, qformer_config=QFORMER, num_query_tokens=4)


blip_2_t5 = queries_before_t5(
    "blip_2_t5",
    "Blip2ForConditionalGeneration",
    QUERIES,
    title="BLIP-2 with T5",
    model_types=("blip-2",),
)
