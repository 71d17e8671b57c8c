"""LeViT (Graham et al., 2021): convolutions down to a small grid, batch norms, merged by stage.

Scores are read at the positions of the grid that enter the first stage, each 16 x 16 pixels.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "image_size": 64,
    "hidden_sizes": [16, 32],
    "num_attention_heads": [2, 4],
    "depths": [1, 1],
    "key_dim": [8, 8],
    "mlp_ratio": [2, 2],
    "attention_ratio": [2, 2],
    "drop_path_rate": 0,
    "down_ops": [["Subsample", 8, 2, 4, 2, 2], [""]],
    "num_labels": 3,
}

levit = declare(
    "levit",
    title="LeViT",
    stream="image",
    model_types=("levit",),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image",), "encoder"),),
    without_maps="it merges tokens",
    tiny=tiny_model("LevitForImageClassification", **SIZES),
)
