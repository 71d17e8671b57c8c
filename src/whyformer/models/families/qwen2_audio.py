"""Qwen2-Audio (Chu et al., 2024): frames of sound at placeholders in the text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.soft import Item, Panel, Soft, line
from whyformer.models.families.tiny import DECODER, tiny_model
from whyformer.models.families.vision_language import IMAGE_ID, vision_language

_MASK = "feature_attention_mask"


def _items(config: Any, arguments: Mapping[str, Any]) -> list[Item]:
    """A token for every four frames that the mask does not hide."""
    frames: list[int] = arguments[_MASK].sum(1).tolist()
    counts = [(((one - 1) // 2 + 1) - 2) // 2 + 1 for one in frames]
    return [Item(n, (Panel(line(n)),), {"input_features": 1, _MASK: 1}) for n in counts]


def _tiny(config: Any, samples: int, generator: torch.Generator) -> dict[str, Tensor]:
    bins, frames = config.audio_config.num_mel_bins, 2 * config.audio_config.max_source_positions
    sounds = [torch.randn(bins, frames, generator=generator) for _ in range(samples)]
    mask = torch.ones(samples, frames, dtype=torch.long)
    mask[1::2, frames - 8 :] = 0
    return {"input_features": torch.stack(sounds) * mask.unsqueeze(1), _MASK: mask}


qwen2_audio = vision_language(
    "qwen2_audio",
    title="Qwen2-Audio",
    model_types=("qwen2_audio",),
    soft=Soft("audio", "input_features", _items, "audio_token_id", tiny=_tiny),
    tiny=tiny_model(
        "Qwen2AudioForConditionalGeneration",
        text_config={"model_type": "qwen2", **DECODER},
        audio_config={
            "num_mel_bins": 8,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 48,
            "d_model": 32,
            "max_source_positions": 12,
        },
        audio_token_index=IMAGE_ID,
        audio_token_id=IMAGE_ID,
    ),
)
