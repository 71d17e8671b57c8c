"""BLIP for captioning: the generated caption attends to the image."""

from whyformer.models.families.blip import (
    IMAGE,
    IMAGE_ATTENTION,
    IMAGE_STACK,
    SIZES,
    text_attention,
)
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

blip_captioning = declare(
    "blip_captioning",
    title="BLIP, captioning",
    stream="image",
    model_types=("blip",),
    classes=("BlipForConditionalGeneration",),
    sources=(
        IMAGE,
        Source(
            "generated",
            "input_ids",
            mask="attention_mask",
            part="text_decoder",
            ends="sep_token_id",
            optional=True,
        ),
    ),
    stacks=(IMAGE_STACK, Stack(("generated",), "text_decoder.bert.encoder.layer")),
    attention={
        **IMAGE_ATTENTION,
        **text_attention("text_decoder.bert.encoder.layer", "generated", "image"),
    },
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BlipForConditionalGeneration", **SIZES),
)
