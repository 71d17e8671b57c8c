"""T5Gemma (Zhang et al., 2025): Gemma's blocks as an encoder and a decoder."""

from dataclasses import replace

from whyformer.models.families.encoder_decoder import BART, GENERATED, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import DECODER, tiny_model

_SIZES = {**DECODER, "sliding_window": 64, "query_pre_attn_scalar": 8}

t5gemma = encoder_decoder(
    "t5gemma",
    title="T5Gemma",
    model_types=("t5gemma",),
    classes=("T5GemmaForConditionalGeneration",),
    # Each has word embeddings of its own.
    source=replace(TEXT_SOURCE, part="model.encoder"),
    generated=replace(GENERATED, part="model.decoder"),
    tiny=tiny_model(
        "T5GemmaForConditionalGeneration",
        encoder=_SIZES,
        decoder=_SIZES,
        vocab_size=60,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    **{**BART, "between": "decoder.layers.*.cross_attn"},
)
