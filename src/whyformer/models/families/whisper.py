"""Whisper (Radford et al., 2023): two convolutions halve the frames of sound before the encoder."""

from whyformer.models.families.encoder_decoder import BART, GENERATED, encoder_decoder
from whyformer.models.families.encoder_decoder import SIZES as TEXT_SIZES
from whyformer.models.families.family import Source
from whyformer.models.families.tiny import tiny_model

SIZES = {
    **{
        k: v
        for k, v in TEXT_SIZES.items()
        if k not in ("max_position_embeddings", "forced_eos_token_id")
    },
    "num_mel_bins": 8,
    "max_source_positions": 6,
    "max_target_positions": 20,
}

# The second convolution has stride two.
SOUND = Source(
    "audio",
    "input_features",
    kind="sound",
    widths={"input_features": "num_mel_bins"},
    frames=lambda config, entries: (entries + 1) // 2,
)

whisper = encoder_decoder(
    "whisper",
    title="Whisper",
    model_types=("whisper",),
    classes=("WhisperForConditionalGeneration", "WhisperModel"),
    source=SOUND,
    generated=GENERATED,
    tiny=tiny_model("WhisperForConditionalGeneration", **SIZES),
    **BART,
)
