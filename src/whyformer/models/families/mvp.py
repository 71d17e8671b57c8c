"""MVP (Tang et al., 2023): BART with optional prompts before the keys of each attention."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

mvp = encoder_decoder(
    "mvp",
    title="MVP",
    model_types=("mvp",),
    classes=("MvpForConditionalGeneration", "MvpModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("MvpForConditionalGeneration", **SIZES),
    **BART,
)
