"""Funnel Transformer (Dai et al., 2020): tokens are pooled by two between groups of blocks.

Scores are read at the tokens that enter the first group; later groups have fewer.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "vocab_size": 60,
    "d_model": 32,
    "n_head": 4,
    "d_head": 8,
    "d_inner": 48,
    "block_sizes": [2, 1],
    "num_decoder_layers": 1,
    "num_labels": 3,
    "pad_token_id": 0,
}

funnel = declare(
    "funnel",
    title="Funnel Transformer",
    stream="text",
    model_types=("funnel",),
    sources=(Source("text", "input_ids", mask="attention_mask", beside=("token_type_ids",)),),
    stacks=(Stack(("text",), "encoder.blocks.0", leaves="encoder.blocks.-1.-1"),),
    without_maps="it merges tokens",
    tiny=tiny_model("FunnelForSequenceClassification", **SIZES),
)
