"""M2M100 (Fan et al., 2021) and NLLB: pre-norm, positions counted from the padding id."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

m2m_100 = encoder_decoder(
    "m2m_100",
    title="M2M100, NLLB",
    model_types=("m2m_100",),
    classes=("M2M100ForConditionalGeneration", "M2M100Model"),
    source=TEXT_SOURCE,
    tiny=tiny_model("M2M100ForConditionalGeneration", **SIZES),
    **BART,
)
