"""Voxtral (Liu et al., 2025): sound in chunks of one length at placeholders in the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.soft import Item, Panel, Soft, line
from whyformer.models.families.tiny import SIZES, tiny_model
from whyformer.models.families.vision_language import IMAGE_ID, LLAMA, vision_language


def _items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    """Neighbouring states of a chunk are joined until they are as wide as the projector's input."""
    audio = config.audio_config
    count = audio.max_source_positions * audio.hidden_size // audio.intermediate_size
    chunks = range(len(arguments["input_features"]))
    return [Item(count, (Panel(line(count)),), {"input_features": 1}) for _ in chunks]


def _tiny(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    bins, frames = config.audio_config.num_mel_bins, 2 * config.audio_config.max_source_positions
    sounds = [torch.randn(bins, frames, generator=generator) for _ in range(samples)]
    return {"input_features": torch.stack(sounds)}


voxtral = vision_language(
    "voxtral",
    title="Voxtral",
    model_types=("voxtral",),
    soft=Soft("audio", "input_features", _items, "audio_token_id", tiled=True, tiny=_tiny),
    tiny=tiny_model(
        "VoxtralForConditionalGeneration",
        text_config=LLAMA,
        audio_config={
            **SIZES,
            "intermediate_size": 64,
            "num_mel_bins": 8,
            "max_source_positions": 12,
        },
        audio_token_id=IMAGE_ID,
    ),
)
