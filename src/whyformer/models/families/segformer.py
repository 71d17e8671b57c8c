"""SegFormer (Xie et al., 2021): PVT v2's encoder without positions; the decoder reads all stages.

Scores are read at the patches that enter the first stage.
"""

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.pvt_v2 import SIZES
from whyformer.models.families.tiny import tiny_model

segformer = declare(
    "segformer",
    title="SegFormer",
    stream="image",
    model_types=("segformer",),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image",), "stages.0.blocks", leaves="stages.-1.layer_norm"),),
    without_maps="it merges tokens",
    tiny=tiny_model("SegformerForImageClassification", **SIZES),
    relu=tiny_model("SegformerForImageClassification", **SIZES, hidden_act="relu"),
)
