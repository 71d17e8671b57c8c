"""CvT (Wu et al., 2021): convolutions before queries, keys and values, merged by stage.

Scores are read at the patches that enter the first stage. A class token joins in the last one.
"""

from __future__ import annotations

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {
    "image_size": 16,
    "embed_dim": [16, 32],
    "num_heads": [2, 4],
    "depth": [1, 2],
    "patch_sizes": [7, 3],
    "patch_stride": [4, 2],
    "patch_padding": [2, 1],
    "mlp_ratio": [2.0, 2.0],
    "cls_token": [False, True],
    "attention_drop_rate": [0.0, 0.0],
    "drop_rate": [0.0, 0.0],
    "drop_path_rate": [0.0, 0.0],
    "qkv_bias": [True, True],
    "qkv_projection_method": ["dw_bn", "dw_bn"],
    "kernel_qkv": [3, 3],
    "padding_kv": [1, 1],
    "stride_kv": [2, 2],
    "padding_q": [1, 1],
    "stride_q": [1, 1],
    "num_labels": 3,
}


cvt = declare(
    "cvt",
    title="CvT",
    stream="image",
    model_types=("cvt",),
    sources=(Source("image", "pixel_values", kind="pixels"),),
    stacks=(Stack(("image",), "encoder.stages.0.layers", leaves="encoder.stages.-1.layers.-1"),),
    without_maps="it merges tokens",
    tiny=tiny_model("CvtForImageClassification", **SIZES),
)
