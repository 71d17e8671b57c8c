"""BLIP for image-text matching: the text attends to the image; the head reads the class token."""

from whyformer.models.families.blip import (
    IMAGE,
    IMAGE_ATTENTION,
    IMAGE_STACK,
    SIZES,
    text_attention,
)
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

blip_matching = declare(
    "blip_matching",
    title="BLIP, image-text matching",
    stream="text",
    model_types=("blip",),
    classes=("BlipForImageTextRetrieval",),
    sources=(Source("text", "input_ids", mask="attention_mask", part="text_encoder"), IMAGE),
    stacks=(IMAGE_STACK, Stack(("text",), "text_encoder.encoder.layer")),
    attention={**IMAGE_ATTENTION, **text_attention("text_encoder.encoder.layer", "text", "image")},
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BlipForImageTextRetrieval", **SIZES),
)
