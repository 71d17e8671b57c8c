"""VisionEncoderDecoderModel: any vision transformer with any text decoder."""

from __future__ import annotations

from typing import Any

from whyformer.models.families.composed import BERT, COMPOSED, WORDS, tiny_composed
from whyformer.models.families.encoder_decoder import encoder_decoder
from whyformer.models.families.family import Source, families
from whyformer.models.families.tiny import IMAGE

_VIT = ("ViTConfig", {name: size for name, size in IMAGE.items() if name != "num_labels"})
_GPT2 = {**WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 48, "n_positions": 40}


def prefix_tokens(config: Any) -> int:
    """The number of tokens before the patches, from the encoder's family."""
    kind = config.encoder.model_type
    found = (f.prefix_tokens(config.encoder) for f in families.values() if kind in f.model_types)
    return next(found, 0)


vision_encoder_decoder = encoder_decoder(
    "vision_encoder_decoder",
    title="VisionEncoderDecoderModel (TrOCR, ViT-GPT2, Donut)",
    model_types=("vision-encoder-decoder",),
    source=Source("image", "pixel_values", kind="pixels", part="encoder"),
    **COMPOSED,
    prefix_tokens=prefix_tokens,
    unread=("encoder.pooler.",),
    tiny=tiny_composed("VisionEncoderDecoder", _VIT, ("BertConfig", BERT)),
    variants={"vision_gpt2": tiny_composed("VisionEncoderDecoder", _VIT, ("GPT2Config", _GPT2))},
)
