"""Speech2Text (Wang et al., 2020): two convolutions leave a quarter of the frames of sound."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whyformer.models.families.encoder_decoder import BART, SIZES, encoder_decoder
from whyformer.models.families.family import Source
from whyformer.models.families.tiny import tiny_model


def _frames(config: Any, frames: Tensor) -> Tensor:
    for _ in range(config.num_conv_layers):
        frames = (frames + 1) // 2
    return frames


speech_to_text = encoder_decoder(
    "speech_to_text",
    title="Speech2Text",
    model_types=("speech_to_text",),
    classes=("Speech2TextForConditionalGeneration", "Speech2TextModel"),
    source=Source(
        "audio",
        "input_features",
        kind="frames",
        mask="attention_mask",
        widths={"input_features": "input_feat_per_channel"},
        frames=_frames,
        padding=False,  # the second convolution reads what the first makes of padding
    ),
    tiny=tiny_model(
        "Speech2TextForConditionalGeneration",
        **{
            k: v
            for k, v in SIZES.items()
            if k not in ("max_position_embeddings", "forced_eos_token_id")
        },
        max_source_positions=40,
        max_target_positions=40,
        conv_channels=16,
        input_feat_per_channel=6,
    ),
    **BART,
)
