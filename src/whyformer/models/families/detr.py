"""DETR (Carion et al., 2020): object queries that attend to a convolutional feature map.

The query states start as zeros, and positions are added to queries and keys only, so all
relevance comes from the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from whyformer.models.families.encoder_decoder import LAYERS
from whyformer.models.families.family import Family, Source, Stack, declare
from whyformer.models.families.tiny import tiny_model

SIZES = {**LAYERS, "num_queries": 5, "num_labels": 3}
CROSS_ATTENTION = "decoder.layers.*.encoder_attn"


def tiny_detector(class_name: str, *stages: str, **sizes: Any) -> Callable[..., nn.Module]:
    """Return a function that builds a tiny detector on these stages of a tiny ResNet."""

    def build(*, seed: int = 0, **changes: Any) -> nn.Module:
        import transformers

        backbone = transformers.ResNetConfig(
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            layer_type="basic",
            out_features=list(stages or ("stage2",)),
        )
        model = tiny_model(class_name, **sizes, backbone_config=backbone)(seed=seed, **changes)
        return _with_small_features(model)

    return build


@torch.no_grad()
def _with_small_features(model: nn.Module) -> nn.Module:
    """The model with smaller features of its backbone, as trained detectors have them.

    A random backbone gives 100 to 250. Attention to such states is one-hot, and what its gradient
    has in float32 is rounding.
    """
    for name, buffer in model.named_buffers():
        if name.endswith("running_var"):
            buffer *= 9
    return model


def detector(name: str, *, cross_attention: str = CROSS_ATTENTION, **facts: Any) -> Family:
    """Register a family of detectors: an image encoder, and object queries that attend to it."""
    return declare(
        name,
        stream="image",
        sources=(Source("image", "pixel_values", kind="pixels", mask="pixel_mask"),),
        stacks=(
            Stack(("image",), "encoder.layers", read=False),
            Stack(("queries",), "decoder.layers"),
        ),
        attention={
            "encoder": ("image", "image"),
            "decoder.layers.*.self_attn": ("queries", "queries"),
            cross_attention: ("queries", "image"),
        },
        **facts,
    )


detr = detector(
    "detr",
    title="DETR",
    model_types=("detr",),
    classes=("DetrForObjectDetection",),
    tiny=tiny_detector(
        "DetrForObjectDetection",
        **SIZES,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
    ),
)
