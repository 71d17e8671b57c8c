"""BLIP for question answering: an answer that asks a question that asked the image."""

from whyformer.models.families.blip import ASKED, IMAGE, SEEN, SIZES, asking
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

blip_answering = declare(
    "blip_answering",
    title="BLIP, question answering",
    stream="text",
    model_types=("blip",),
    classes=("BlipForQuestionAnswering",),
    sources=(
        # The answer's cross attention is given the question's mask and leaves it unused.
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
        SEEN,
        Stack(("text",), "text_encoder.encoder.layer", read=False),
        Stack(("generated",), "text_decoder.bert.encoder.layer"),
    ),
    attention={
        **ASKED,
        **asking("text_encoder.encoder.layer", "text", "image"),
        **asking("text_decoder.bert.encoder.layer", "generated", "text"),
    },
    prefix_tokens=lambda config: 1,
    speaks="text_decoder",
    tiny=tiny_model("BlipForQuestionAnswering", **SIZES),
)
