"""Moonshine (Jeffries et al., 2024): three convolutions of a waveform, rotary positions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whyformer.models.families.encoder_decoder import BART, encoder_decoder
from whyformer.models.families.family import Source
from whyformer.models.families.tiny import tiny_model


def _frames(config: Any, samples: Tensor) -> Tensor:
    for kernel, stride in ((127, 64), (7, 3), (3, 2)):
        samples = (samples - kernel).div(stride, rounding_mode="floor") + 1
    return samples.clamp(min=0)


moonshine = encoder_decoder(
    "moonshine",
    title="Moonshine",
    model_types=("moonshine",),
    classes=("MoonshineForConditionalGeneration", "MoonshineModel"),
    source=Source(
        "audio",
        "input_values",
        kind="waveform",
        mask="attention_mask",
        frames=_frames,
        padding=False,  # a group norm averages over it
    ),
    tiny=tiny_model(
        "MoonshineForConditionalGeneration",
        vocab_size=60,
        hidden_size=32,
        intermediate_size=48,
        encoder_num_hidden_layers=2,
        decoder_num_hidden_layers=2,
        encoder_num_attention_heads=4,
        decoder_num_attention_heads=4,
        max_position_embeddings=40,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    ),
    **BART,
)
