"""Images whose tiles have an axis of their own, with a class token in each tile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.images import display_pixels
from whyformer.inputs.sequence import contents, move_to_module
from whyformer.models.families import Source


def tiled_batch(
    source: Source, arguments: Mapping[str, Any], module: nn.Module, processor: Any
) -> Batch:
    """Return (batch, images, tiles, channels, height, width) as a batch.

    `source.cells` tells which token states show the image, and where.
    """
    pixels: Tensor = arguments[source.carrier]
    if pixels.ndim != 6 or not pixels.is_floating_point():
        raise InputError(
            f"'{source.carrier}' is a tensor of {pixels.dtype} with shape {tuple(pixels.shape)};"
            " expected floating numbers of rank 6 (batch, images, tiles, channels, height, width)",
            argument="inputs",
            remedy="Pass what the model's processor returns, unchanged",
        )
    assert source.cells is not None
    config = getattr(source.submodule(module), "config", None)
    cells, mask, shown = source.cells(config, arguments)
    placed = move_to_module({source.carrier: pixels}, module)
    carried: Tensor = placed[source.carrier]
    return Batch(
        arguments=placed,
        baseline_arguments={source.carrier: torch.zeros_like(carried)},
        carrier=source.carrier,
        size=len(pixels),
        stream=source.stream,
        content=contents(pixels),
        mask=mask.to(carried.device),
        grid=(cells.shape[0], cells.shape[1]),
        image=display_pixels(shown, processor),
        order=tuple(cells.flatten().tolist()),
    )
