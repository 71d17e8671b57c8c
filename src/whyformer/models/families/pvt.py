"""PVT (Wang et al., 2021): keys and values from fewer patches, patches merged by stage.

Scores are read at the patches that enter the first stage. A class token joins in the last one.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "image_size": 16,
    "num_encoder_blocks": 2,
    "depths": [2, 1],
    "sequence_reduction_ratios": [2, 1],
    "hidden_sizes": [16, 32],
    "patch_sizes": [4, 2],
    "strides": [4, 2],
    "num_attention_heads": [2, 4],
    "mlp_ratios": [2, 2],
    "num_labels": 3,
}

pvt = declare(
    "pvt",
    title="PVT",
    stream="image",
    model_types=("pvt",),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image",), "encoder.block.0", leaves="encoder.block.-1.-1"),),
    without_maps="it merges tokens",
    tiny=tiny_model("PvtForImageClassification", **SIZES),
    relu=tiny_model("PvtForImageClassification", **SIZES, hidden_act="relu"),
)
