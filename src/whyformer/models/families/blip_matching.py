"""BLIP for image-text matching: a text that asks the image; the class token is read."""

from whyformer.models.families.blip import ASKED, IMAGE, SEEN, SIZES, asking
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

blip_matching = declare(
    "blip_matching",
    title="BLIP, image-text matching",
    stream="text",
    model_types=("blip",),
    classes=("BlipForImageTextRetrieval",),
    sources=(Source("text", "input_ids", mask="attention_mask", part="text_encoder"), IMAGE),
    stacks=(SEEN, Stack(("text",), "text_encoder.encoder.layer")),
    attention={**ASKED, **asking("text_encoder.encoder.layer", "text", "image")},
    prefix_tokens=lambda config: 1,
    tiny=tiny_model("BlipForImageTextRetrieval", **SIZES),
)
