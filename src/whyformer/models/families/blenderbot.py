"""Blenderbot (Roller et al., 2021): dialogue; pre-norm with learned positions."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

blenderbot = encoder_decoder(
    "blenderbot",
    title="Blenderbot",
    model_types=("blenderbot",),
    classes=("BlenderbotForConditionalGeneration", "BlenderbotModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("BlenderbotForConditionalGeneration", **SIZES),
    **BART,
)
