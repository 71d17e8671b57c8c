"""Shared by language models that read images or sounds at placeholders in their text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from whyformer.models.families.family import Family, Source, Stack, declare
from whyformer.models.families.soft import Soft
from whyformer.models.families.tiny import DECODER, SIZES, tiny_model

TEXT = Source(
    "text",
    "input_ids",
    mask="attention_mask",
    beside=("token_type_ids", "mm_token_type_ids", "position_ids"),
)
IMAGE_ID = 50  # the placeholder in tiny models
VIDEO_ID = 51
# Configs of tiny vision and language models.
VISION = {**SIZES, "image_size": 12, "patch_size": 4}
CLIP = {"model_type": "clip_vision_model", **VISION}
SIGLIP = {"model_type": "siglip_vision_model", **VISION, "vision_use_head": False}
LLAMA = {"model_type": "llama", **DECODER, "max_position_embeddings": 80}


def vision_language(
    name: str,
    *,
    soft: Soft | tuple[Soft, ...],
    blocks: str = "language_model.layers",
    text: Source = TEXT,
    **facts: Any,
) -> Family:
    """Register a family of one language model; `facts` are more fields of `Family`.

    Args:
        name: Name of the family.
        soft: The tokens that stand at placeholders.
        blocks: Path of the language model's blocks.
        text: The text with the placeholders.
        **facts: More fields of `Family`.
    """
    return declare(
        name,
        stream="text",
        causal=True,
        sources=(text,),
        stacks=(Stack(("text",), blocks, merged=True),),
        soft=soft if isinstance(soft, tuple) else (soft,),
        **facts,
    )


def tiny_vlm(
    class_name: str, vision: dict[str, Any], text: dict[str, Any] | None = None, **sizes: Any
) -> Callable[..., nn.Module]:
    """Return a function that builds a tiny model of a vision and a language model."""
    settings = {"image_token_id": IMAGE_ID, "image_token_index": IMAGE_ID, **sizes}
    return tiny_model(class_name, vision_config=vision, text_config=text or LLAMA, **settings)
