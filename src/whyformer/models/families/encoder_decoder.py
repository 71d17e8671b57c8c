"""Shared by all encoder-decoders: a source stream, and a decoder that attends to it."""

from __future__ import annotations

from typing import Any

from whyformer.models.families.family import Family, Source, Stack, declare

GENERATED = Source("generated", "decoder_input_ids", mask="decoder_attention_mask", optional=True)


def encoder_decoder(
    name: str,
    *,
    source: Source,
    encoder: str,
    decoder: str,
    within: str,
    between: str,
    **facts: Any,
) -> Family:
    """Register an encoder-decoder family.

    Args:
        name: Name of the family.
        source: The encoder's input.
        encoder: Path of the encoder's blocks.
        decoder: Path of the decoder's blocks.
        within: Pattern of the decoder's self-attentions.
        between: Pattern of the decoder's cross-attentions.
        **facts: More fields of `Family`; `generated` is the decoder's input; `pads`, `whole` and
            `merged` are those of the encoder's stack.
    """
    generated = facts.pop("generated", GENERATED)
    stack = {name: facts.pop(name) for name in ("pads", "whole", "merged") if name in facts}
    return declare(
        name,
        stream=source.stream,
        sources=(source, generated),
        stacks=(
            Stack((source.stream,), encoder, read=False, **stack),
            Stack((generated.stream,), decoder),
        ),
        attention={
            encoder.removesuffix(".**"): (source.stream, source.stream),
            within: (generated.stream, generated.stream),
            between: (generated.stream, source.stream),
        },
        **facts,
    )


TEXT_SOURCE = Source("source", "input_ids", mask="attention_mask")
# Config of a tiny model like BART.
LAYERS = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48,
}
SIZES = {
    **LAYERS,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": 2,
}
BART = {
    "encoder": "encoder.layers",
    "decoder": "decoder.layers",
    "within": "decoder.layers.*.self_attn",
    "between": "decoder.layers.*.encoder_attn",
}
