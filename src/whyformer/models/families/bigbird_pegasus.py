"""BigBird-Pegasus (Zaheer et al., 2020): Pegasus whose encoder attends to few blocks of tokens.

Short texts get full attention.
"""

from whyformer.models.families.encoder_decoder import BART, SIZES, TEXT_SOURCE, encoder_decoder
from whyformer.models.families.tiny import tiny_model

bigbird_pegasus = encoder_decoder(
    "bigbird_pegasus",
    title="BigBird-Pegasus",
    model_types=("bigbird_pegasus",),
    classes=("BigBirdPegasusForConditionalGeneration", "BigBirdPegasusModel"),
    source=TEXT_SOURCE,
    tiny=tiny_model("BigBirdPegasusForConditionalGeneration", **SIZES),
    **BART,
)
