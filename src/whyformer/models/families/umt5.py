"""UMT5 (Chung et al., 2023): T5 with relative positions of its own in every block."""

from whyformer.models.families.encoder_decoder import TEXT_SOURCE, encoder_decoder
from whyformer.models.families.t5 import BLOCKS, SIZES
from whyformer.models.families.tiny import tiny_model

umt5 = encoder_decoder(
    "umt5",
    title="UMT5",
    model_types=("umt5",),
    classes=("UMT5ForConditionalGeneration", "UMT5Model"),
    source=TEXT_SOURCE,
    tiny=tiny_model("UMT5ForConditionalGeneration", **SIZES),
    **BLOCKS,
)
