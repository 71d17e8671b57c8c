"""Pegasus (Zhang et al., 2020): summaries; pre-norm with sinusoidal positions."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

pegasus = encoder_decoder(
    "pegasus",
    title="Pegasus",
    model_types=("pegasus",),
    classes=("PegasusForConditionalGeneration", "PegasusModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("PegasusForConditionalGeneration", **SIZES),
    **BART,
)
