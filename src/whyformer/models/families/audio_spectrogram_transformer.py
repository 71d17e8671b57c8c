"""AST (Gong et al., 2021): a vision transformer on a spectrogram, with overlapping patches.

The rows of its grid are pitches, the columns are times.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whyformer.models.families.family import Source, declare
from whyformer.models.families.tiny import SIZES, tiny_model


def _grid(config: Any, shape: tuple[int, ...]) -> tuple[int, int]:
    """(rows, columns) of the patches of a spectrogram (batch, frames, width)."""
    rows = (shape[2] - config.patch_size) // config.frequency_stride + 1
    return rows, (shape[1] - config.patch_size) // config.time_stride + 1


def _patches(config: Any, frames: Tensor) -> Tensor:
    rows, _ = _grid(config, (1, config.max_length, config.num_mel_bins))
    times = (frames - config.patch_size).div(config.time_stride, rounding_mode="floor") + 1
    return rows * times.clamp(min=0)


audio_spectrogram_transformer = declare(
    "audio_spectrogram_transformer",
    title="Audio Spectrogram Transformer",
    stream="audio",
    model_types=("audio-spectrogram-transformer",),
    sources=(
        Source(
            "audio",
            "input_values",
            kind="frames",
            widths={"input_values": "num_mel_bins"},
            frames=_patches,
            grid=_grid,
        ),
    ),
    blocks="layers",
    prefix_tokens=lambda config: 2,
    tiny=tiny_model(
        "ASTForAudioClassification",
        **SIZES,
        num_labels=3,
        patch_size=4,
        frequency_stride=2,
        time_stride=3,
        num_mel_bins=8,
        max_length=13,
    ),
)
