"""Marian (Junczys-Dowmunt et al., 2018): translation, like BART with sinusoidal positions."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

marian = encoder_decoder(
    "marian",
    title="Marian (OPUS-MT)",
    model_types=("marian",),
    classes=("MarianMTModel", "MarianModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("MarianMTModel", **SIZES),
    **BART,
)
