"""PLBART (Ahmad et al., 2021): BART for programs."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

plbart = encoder_decoder(
    "plbart",
    title="PLBART",
    model_types=("plbart",),
    classes=("PLBartForConditionalGeneration", "PLBartModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("PLBartForConditionalGeneration", **SIZES),
    **BART,
)
