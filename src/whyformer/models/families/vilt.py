"""ViLT (Kim et al., 2021): text, an image's class token and its patches in one sequence.

The model shuffles the patches together with their positions. A rule keeps them in order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

_SIZES = {**ENCODER, "image_size": 12, "patch_size": 4}


def first_in_order(ledger: Any, function: Any, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """Return the first indices in order, where the model would draw them at random."""
    weights, count = args[0], int(args[1])
    return torch.arange(count, device=weights.device) % weights.shape[-1]


vilt = declare(
    "vilt",
    title="ViLT",
    stream="text",
    model_types=("vilt",),
    sources=(
        Source("text", "input_ids", mask="attention_mask", beside=("token_type_ids",)),
        Source("image", "pixel_values", kind="pixels", mask="pixel_mask"),
    ),
    stacks=(Stack(("text", "image"), "encoder.layer"),),
    prefix_tokens=lambda config: 1,
    rules={torch.multinomial: first_in_order},
    tiny=tiny_model("ViltForQuestionAnswering", **_SIZES),
)
