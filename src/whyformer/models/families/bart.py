"""BART (Lewis et al., 2020): an encoder-decoder with post-norm blocks and learned positions."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

bart = encoder_decoder(
    "bart",
    title="BART, mBART",
    model_types=("bart", "mbart"),
    classes=(
        "BartForConditionalGeneration",
        "BartModel",
        "MBartForConditionalGeneration",
        "MBartModel",
    ),
    source=TEXT_SOURCE,
    tiny=tiny_model("BartForConditionalGeneration", **SIZES),
    relu=tiny_model("BartForConditionalGeneration", **SIZES, activation_function="relu"),
    **BART,
)
