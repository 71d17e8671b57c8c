"""BLIP for question answering: the answer attends to the question, the question to the image."""

from whyformer.models.families.blip import (
    IMAGE,
    IMAGE_ATTENTION,
    IMAGE_STACK,
    SIZES,
    text_attention,
)
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

blip_answering = declare(
    "blip_answering",
    title="BLIP, question answering",
    stream="text",
    model_types=("blip",),
    classes=("BlipForQuestionAnswering",),
    sources=(
        # The decoder's cross-attention ignores the question's mask.
        Source("text", "input_ids", mask="attention_mask", part="text_encoder", padding=False),
        IMAGE,
        Source(
            "generated",
            "decoder_input_ids",
            mask="decoder_attention_mask",
            part="text_decoder",
            ends="sep_token_id",
            optional=True,
        ),
    ),
    stacks=(
        IMAGE_STACK,
        Stack(("text",), "text_encoder.encoder.layer", read=False),
        Stack(("generated",), "text_decoder.bert.encoder.layer"),
    ),
    attention={
        **IMAGE_ATTENTION,
        **text_attention("text_encoder.encoder.layer", "text", "image"),
        **text_attention("text_decoder.bert.encoder.layer", "generated", "text"),
    },
    prefix_tokens=lambda config: 1,
    output_module="text_decoder",
    tiny=tiny_model("BlipForQuestionAnswering", **SIZES),
)
