"""PVT v2 (Wang et al., 2022): overlapping patches, convolutions in the MLPs, merged by stage.

Scores are read at the patches that enter the first stage.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "image_size": 16,
    "num_encoder_blocks": 2,
    "depths": [2, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [2, 4],
    "mlp_ratios": [2, 2],
    "num_labels": 3,
}

pvt_v2 = declare(
    "pvt_v2",
    title="PVT v2",
    stream="image",
    model_types=("pvt_v2",),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image",), "encoder.layers.0.blocks", leaves="encoder.layers.-1.layer_norm"),),
    without_maps="it merges tokens",
    tiny=tiny_model("PvtV2ForImageClassification", **SIZES),
    relu=tiny_model("PvtV2ForImageClassification", **SIZES, hidden_act="relu"),
    variants={
        "pvt_v2_linear": tiny_model(
            "PvtV2ForImageClassification", **{**SIZES, "image_size": 32}, linear_attention=True
        ),
    },
)
