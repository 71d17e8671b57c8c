"""LongT5 (Guo et al., 2022): T5 whose encoder attends within blocks of neighbouring tokens."""

from whyformer.models.families.encoder_decoder import TEXT_SOURCE, encoder_decoder
from whyformer.models.families.t5 import BLOCKS, SIZES
from whyformer.models.families.tiny import tiny_model

_SIZES = {**SIZES, "d_ff": 40, "local_radius": 3, "global_block_size": 2}

longt5 = encoder_decoder(
    "longt5",
    title="LongT5",
    model_types=("longt5",),
    classes=("LongT5ForConditionalGeneration", "LongT5Model"),
    source=TEXT_SOURCE,
    without_maps="its encoder attends within blocks of neighbouring tokens",
    tiny=tiny_model("LongT5ForConditionalGeneration", **_SIZES),
    variants={
        "longt5_global": tiny_model(
            "LongT5ForConditionalGeneration", **_SIZES, encoder_attention_type="transient-global"
        ),
    },
    **BLOCKS,
)
