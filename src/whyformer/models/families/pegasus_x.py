"""Pegasus-X (Phang et al., 2022): an encoder that attends within blocks and to global tokens."""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

pegasus_x = encoder_decoder(
    "pegasus_x",
    title="Pegasus-X",
    model_types=("pegasus_x",),
    classes=("PegasusXForConditionalGeneration", "PegasusXModel"),
    source=TEXT_SOURCE,
    pads=True,
    whole=False,  # global tokens go beside the states
    without_maps="its encoder attends within blocks of neighbouring tokens",
    tiny=tiny_model("PegasusXForConditionalGeneration", **SIZES, num_global_tokens=2, block_size=4),
    **BART,
)
