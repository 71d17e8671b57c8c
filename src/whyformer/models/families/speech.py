"""Shared by the models that read a waveform: convolutions cut it into frames for the encoder."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from whyformer.models.families.family import Family, Source, declare
from whyformer.models.families.tiny import SIZES, tiny_model


def frames(config: Any, samples: Tensor) -> Tensor:
    """The number of frames that the feature extractor makes of so many samples."""
    for kernel, stride in zip(config.conv_kernel, config.conv_stride, strict=True):
        samples = (samples - kernel).div(stride, rounding_mode="floor") + 1
    return samples.clamp(min=0)


def skips_padding(config: Any) -> bool:
    """Whether padding changes nothing: a group norm of the feature extractor averages over it."""
    return getattr(config, "feat_extract_norm", "layer") != "group"


WAVEFORM = Source(
    "audio",
    "input_values",
    kind="waveform",
    mask="attention_mask",
    frames=frames,
    padding=skips_padding,
)
# Config of a tiny model like wav2vec 2.0: ten samples per frame.
SPEECH = {
    **SIZES,
    "num_labels": 3,
    "vocab_size": 20,
    "pad_token_id": 0,
    "feat_extract_norm": "layer",
    "conv_dim": [8, 8],
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 4,
    "num_conv_pos_embedding_groups": 2,
    "classifier_proj_size": 16,
    "tdnn_dim": [8],
    "tdnn_kernel": [3],
    "tdnn_dilation": [1],
}


def speech(name: str, *, class_name: str, source: Source = WAVEFORM, **facts: Any) -> Family:
    """Register a family of speech encoders; `class_name` is that of its tiny model."""
    sizes = facts.pop("sizes", SPEECH)
    variants = {key: tiny_model(class_name, **more) for key, more in facts.pop("more", {}).items()}
    return declare(
        name,
        stream="audio",
        sources=(source,),
        blocks="encoder.layers",
        tiny=tiny_model(class_name, **sizes),
        variants=variants,
        **facts,
    )
