"""BLIP for captioning: a caption that asks the image while it is written."""

from whyformer.models.families.blip import ASKED, IMAGE, SEEN, SIZES, asking
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
    stacks=(SEEN, Stack(("generated",), "text_decoder.bert.encoder.layer")),
    attention={**ASKED, **asking("text_decoder.bert.encoder.layer", "generated", "image")},
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BlipForConditionalGeneration", **SIZES),
)
