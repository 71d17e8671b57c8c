"""SqueezeBERT (Iandola et al., 2020): BERT with grouped convolutions in place of linear layers.

Inside the encoder the states are (batch, hidden, tokens), so the encoder as a whole is the block
that takes and returns (batch, tokens, hidden).
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

squeezebert = declare(
    "squeezebert",
    title="SqueezeBERT",
    stream="text",
    model_types=("squeezebert",),
    sources=(
        Source(
            "text", "input_ids", mask="attention_mask", beside=("token_type_ids", "position_ids")
        ),
    ),
    stacks=(Stack(("text",), "encoder"),),
    tiny=tiny_model("SqueezeBertForSequenceClassification", **ENCODER, embedding_size=32),
)
