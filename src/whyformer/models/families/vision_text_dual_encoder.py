"""VisionTextDualEncoderModel: any vision transformer beside any text encoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import nn

from whyformer.models.families.composed import BERT
from whyformer.models.families.family import Source, Stack, declare, families
from whyformer.models.families.tiny import IMAGE, tiny_model

_VIT = {name: size for name, size in IMAGE.items() if name != "num_labels"}


def _prefix_tokens(config: Any) -> int:
    """The number of tokens before the patches, from the family of the vision model."""
    vision = config.vision_config
    kinds = (f for f in families.values() if vision.model_type in f.model_types)
    return next((f.prefix_tokens(vision) for f in kinds), 1)


def _tiny(*, seed: int = 0, **changes: Any) -> nn.Module:
    """A tiny ViT beside a tiny BERT."""
    parts: Mapping[str, Any] = {
        "vision_config": {"model_type": "vit", **_VIT},
        "text_config": {"model_type": "bert", **BERT},
    }
    return tiny_model("VisionTextDualEncoderModel", **parts, projection_dim=16)(
        seed=seed, **changes
    )


vision_text_dual_encoder = declare(
    "vision_text_dual_encoder",
    title="VisionTextDualEncoderModel",
    stream="text",
    model_types=("vision-text-dual-encoder",),
    sources=(
        Source(
            "text",
            "input_ids",
            mask="attention_mask",
            beside=("position_ids", "token_type_ids"),
            part="text_model",
        ),
        Source("image", "pixel_values", kind="pixels", part="vision_model"),
    ),
    stacks=(Stack(("text",), "text_model.**"), Stack(("image",), "vision_model.**")),
    attention={"text_model": ("text", "text"), "vision_model": ("image", "image")},
    prefix_tokens=_prefix_tokens,
    tiny=_tiny,
)
