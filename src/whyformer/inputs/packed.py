"""Vision towers that read the patches of all images as one list: one sample, a token per patch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.inputs.baseline import baseline_arguments
from whyformer.inputs.batch import Batch
from whyformer.inputs.sequence import contents, move_to_module
from whyformer.models.signature import Forward

GRID = "grid_thw"  # (images, 3): frames, rows and columns of patches


def packed_carrier(arguments: Mapping[str, Any], forward: Forward) -> str | None:
    """Return the argument with the patches of all images, (patches, numbers); None if none has."""
    grid = arguments.get(GRID)
    if not isinstance(grid, Tensor) or grid.ndim != 2 or grid.shape[1] != 3:
        return None
    patches = int(grid.prod(dim=1).sum())
    for name in forward.names:
        value = arguments.get(name)
        if isinstance(value, Tensor) and value.is_floating_point() and value.ndim == 2:
            return name if len(value) == patches else None
    return None


def packed_batch(arguments: Mapping[str, Any], carrier: str, module: nn.Module) -> Batch:
    """Return the list of patches as one sample."""
    placed = move_to_module(arguments, module)
    patches: Tensor = placed[carrier]
    return Batch(
        arguments=placed,
        baseline_arguments=baseline_arguments(placed, carrier, module),
        carrier=carrier,
        size=1,
        stream="tokens",
        content=contents(patches.unsqueeze(0)),
        mask=torch.ones(1, len(patches), dtype=torch.bool, device=patches.device),
        packed=True,
    )
