"""Blenderbot Small (Roller et al., 2021): the post-norm blocks of BART."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

blenderbot_small = encoder_decoder(
    "blenderbot_small",
    title="Blenderbot Small",
    model_types=("blenderbot-small",),
    classes=("BlenderbotSmallForConditionalGeneration", "BlenderbotSmallModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("BlenderbotSmallForConditionalGeneration", **SIZES),
    **BART,
)
