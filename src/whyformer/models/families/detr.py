"""DETR (Carion et al., 2020): object queries that attend to a convolutional feature map.

The query states start as zeros, and positions are added to queries and keys only, so all
relevance comes from the image.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from whyformer.models.families.encoder_decoder import LAYERS
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

_SIZES = {
    **LAYERS,
    "num_queries": 5,
    "num_labels": 3,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
    "backbone": None,
}


def _tiny(*, seed: int = 0, **changes: Any) -> nn.Module:
    """Build a tiny DETR on a tiny ResNet."""
    import transformers

    backbone = transformers.ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        layer_type="basic",
        out_features=["stage2"],
    )
    build = tiny_model("DetrForObjectDetection", **_SIZES, backbone_config=backbone)
    return build(seed=seed, **changes)


detr = declare(
    "detr",
    title="DETR",
    stream="image",
    model_types=("detr",),
    classes=("DetrForObjectDetection",),
    sources=(Source("image", "pixel_values", kind="pixels", mask="pixel_mask"),),
    stacks=(
        Stack(("image",), "encoder.layers", read=False),
        Stack(("queries",), "decoder.layers"),
    ),
    attention={
        "encoder": ("image", "image"),
        "decoder.layers.*.self_attn": ("queries", "queries"),
        "decoder.layers.*.encoder_attn": ("queries", "image"),
    },
    tiny=_tiny,
)
