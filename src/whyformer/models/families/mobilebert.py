"""MobileBERT (Sun et al., 2020): each token's embedding also holds its two neighbours'.

The last token's neighbour is padding, if there is any: padding changes the result. States are
narrowed before attention and widened after it.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

SIZES = {
    **ENCODER,
    "embedding_size": 16,
    "intra_bottleneck_size": 16,
    "num_feedforward_networks": 2,
}

mobilebert = declare(
    "mobilebert",
    title="MobileBERT",
    stream="text",
    model_types=("mobilebert",),
    sources=(
        Source(
            "text",
            "input_ids",
            mask="attention_mask",
            beside=("token_type_ids", "position_ids"),
            padding=False,
        ),
    ),
    stacks=(Stack(("text",), "encoder.layer"),),
    tiny=tiny_model("MobileBertForSequenceClassification", **SIZES),
)
