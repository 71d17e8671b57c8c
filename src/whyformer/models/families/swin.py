"""Swin (Liu et al., 2021) and Swin v2: attention within shifted windows, patches merged by stage.

Scores are read at the patches that enter the first stage; later stages have fewer tokens.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "image_size": 16,
    "patch_size": 2,
    "embed_dim": 16,
    "depths": [2, 1],
    "num_heads": [2, 4],
    "window_size": 4,  # four windows in the first stage, shifted in its second block
    "mlp_ratio": 2.0,
    "num_labels": 3,
}

swin = declare(
    "swin",
    title="Swin, Swin v2, Donut's Swin",
    stream="image",
    model_types=("swin", "donut-swin", "swinv2"),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image",), "encoder.layers.0.blocks", leaves="encoder.layers.-1"),),
    without_maps="it merges tokens",
    tiny=tiny_model("SwinForImageClassification", **SIZES),
    relu=tiny_model("SwinForImageClassification", **SIZES, hidden_act="relu"),
    variants={"swinv2": tiny_model("Swinv2ForImageClassification", **SIZES)},
)
