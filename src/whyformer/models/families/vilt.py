"""ViLT (Kim et al., 2021): text, an image's class token and its patches in one sequence.

It shuffles the patches and carries their positions along; here they stay in order.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations.names import Function
from whyformer.models.families.family import Source, Stack, declare
from whyformer.models.families.tiny import ENCODER, tiny_model

_SIZES = {**ENCODER, "image_size": 12, "patch_size": 4}


def in_order(ledger: Ledger, function: Function, args: tuple, kwargs: dict[str, Any]) -> Tensor:
    """The first entries in their order where the model would draw as many at random."""
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
    rules={torch.multinomial: in_order},
    tiny=tiny_model("ViltForQuestionAnswering", **_SIZES),
)
