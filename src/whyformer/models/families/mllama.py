"""Mllama, Llama 3.2 Vision (Grattafiori et al., 2024): some blocks attend to tiles of the image.

The image's states are those that enter the projector between the vision tower and the blocks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import DECODER, SIZES, tiny_model

_TEXT = {k: v for k, v in DECODER.items() if k != "head_dim"}


def _cells(config: Any, arguments: Mapping[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    """The states of all tiles, row by row: (rows, columns), (batch, cells) and the pixels.

    Tiles stand in a mosaic if all samples have one image of the same aspect ratio, else one below
    the other.
    """
    pixels: Tensor = arguments["pixel_values"]
    batch, images, tiles = pixels.shape[:3]
    side = config.vision_config.image_size // config.vision_config.patch_size
    states = torch.arange(images * tiles * (side * side + 1)).reshape(images * tiles, -1)
    squares = states[:, 1:].reshape(-1, side, side)  # a class token comes first
    ids: Tensor = arguments["aspect_ratio_ids"]
    rows, columns = images * tiles, 1
    if images == 1 and bool((ids == ids[0, 0]).all()) and int(ids[0, 0]) > 0:
        rows, columns = config.vision_config.supported_aspect_ratios[int(ids[0, 0]) - 1]
    used = squares[: rows * columns].reshape(rows, columns, side, side)
    cells = used.transpose(1, 2).reshape(rows * side, columns * side)
    real = arguments.get("aspect_ratio_mask")
    there = torch.ones(batch, images * tiles) if real is None else real.reshape(batch, -1).cpu()
    there = there[:, : rows * columns].reshape(batch, rows, 1, columns, 1) != 0
    mask = there.expand(-1, -1, side, -1, side).reshape(batch, -1)
    whole = pixels.flatten(1, 2)[:, : rows * columns].unflatten(1, (rows, columns))
    shown = whole.permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)
    return cells, mask, shown


mllama = declare(
    "mllama",
    title="Mllama (Llama 3.2 Vision)",
    stream="text",
    model_types=("mllama",),
    classes=("MllamaForConditionalGeneration",),
    causal=True,
    sources=(
        Source(
            "text",
            "input_ids",
            mask="attention_mask",
            beside=("position_ids", "cross_attention_mask"),
        ),
        Source("image", "pixel_values", kind="tiles", cells=_cells),
    ),
    stacks=(
        Stack(("text",), "language_model.layers"),
        Stack(("image",), "multi_modal_projector", read=False, merged=True, spread=True),
    ),
    attention={
        "language_model.layers.*.self_attn": ("text", "text"),
        "language_model.layers.*.cross_attn": ("text", "image"),
    },
    tiny=tiny_model(
        "MllamaForConditionalGeneration",
        text_config={**_TEXT, "num_hidden_layers": 4, "cross_attention_layers": [1]},
        vision_config={
            **{k: v for k, v in SIZES.items() if k != "num_attention_heads"},
            "attention_heads": 4,
            "num_global_layers": 1,
            "vision_output_dim": 64,
            "image_size": 12,
            "patch_size": 4,
            "max_num_tiles": 2,
            "intermediate_layers_indices": [1],
            "supported_aspect_ratios": [[1, 1], [1, 2], [2, 1]],
        },
        image_token_index=50,
        # Without a cross_attention_mask, transformers' fused attention to the image is causal.
        attn_implementation="eager",
    ),
)
