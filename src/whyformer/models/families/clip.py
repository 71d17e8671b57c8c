"""CLIP (Radford et al., 2021): separate text and image encoders; the target is their similarity."""

from __future__ import annotations

from typing import Any

from whyformer.models.families.family import Family, Source, Stack, declare
from whyformer.models.families.tiny import IMAGE, SIZES, tiny_model

TEXT = {
    **SIZES,
    "vocab_size": 60,
    "max_position_embeddings": 40,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 59,
}
VISION = {k: v for k, v in IMAGE.items() if k != "num_labels"}


def two_towers(name: str, *, text_blocks: str, **facts: Any) -> Family:
    """Register a family of text and image encoders; `text_blocks` is the path of the text's.

    `inside` is the path of the module that holds both, if the model itself does not.
    """
    inside = f"{facts.pop('inside')}." if "inside" in facts else ""
    return declare(
        name,
        stream="text",
        sources=(
            Source(
                "text",
                "input_ids",
                mask="attention_mask",
                beside=facts.pop("beside", ("position_ids",)),
                part=f"{inside}text_model",
            ),
            Source("image", "pixel_values", kind="pixels", part=f"{inside}vision_model"),
        ),
        stacks=(
            Stack(("text",), text_blocks),
            Stack(("image",), "vision_model.encoder.layers"),
        ),
        attention={
            text_blocks.rpartition(".")[0]: ("text", "text"),
            "vision_model.encoder": ("image", "image"),
        },
        prefix_tokens=lambda config: 1,
        **facts,
    )


clip = two_towers(
    "clip",
    title="CLIP",
    model_types=("clip",),
    classes=("CLIPModel",),
    text_blocks="text_model.encoder.layers",
    tiny=tiny_model("CLIPModel", text_config=TEXT, vision_config=VISION, projection_dim=16),
)
