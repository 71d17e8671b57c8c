"""DeBERTa, v1 to v3 (He et al., 2021): separate content and position scores.

Attention has no fused path: scores are batched matrix products on (batch x head, query, key),
gathered by relative distance. The largest v2 models also pass the states that enter block one
through a parallel convolution.
"""

from whyformer.models.families.family import declare
from whyformer.models.families.tiny import ENCODER, tiny_model

# The settings of microsoft/deberta-v3-base.
SIZES = {
    **ENCODER,
    "relative_attention": True,
    "position_buckets": 4,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
    "pooler_hidden_size": ENCODER["hidden_size"],
}

deberta_v2 = declare(
    "deberta_v2",
    title="DeBERTa-v1, v2 and v3",
    stream="text",
    model_types=("deberta-v2", "deberta"),
    blocks="encoder.layer",
    tiny=tiny_model("DebertaV2ForSequenceClassification", **SIZES),
    relu=tiny_model(
        "DebertaV2ForSequenceClassification",
        **SIZES,
        hidden_act="relu",
        pooler_hidden_act="relu",
    ),
    variants={
        "deberta": tiny_model(
            "DebertaForSequenceClassification",
            **{k: v for k, v in SIZES.items() if k not in ("norm_rel_ebd", "share_att_key")},
        ),
        "deberta_v2_conv": tiny_model(
            "DebertaV2ForSequenceClassification", **SIZES, conv_kernel_size=3, conv_act="gelu"
        ),
    },
)
