"""Scores of patches as scores of pixels, for libraries whose attributions look like the input."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.attribution.stream import Stream
from whyformer.errors import InputError


def pixel_scores(stream: Stream, height: int, width: int) -> Tensor:
    """Return (batch, height, width): each patch's score shared out evenly over its pixels.

    Their sum is that of the patches. A method that reaches pixels gives its own.
    """
    if stream.pixels is not None and tuple(stream.pixels.shape[1:]) == (height, width):
        return stream.pixels
    if stream.grid is None:
        raise InputError(f"stream '{stream.name}' has no grid of patches: it is not an image")
    rows = _patch_of_each(height, stream.grid[0])
    columns = _patch_of_each(width, stream.grid[1])
    sizes = torch.outer(rows.bincount(), columns.bincount())
    shares = stream.score_map / sizes
    return shares[:, rows][:, :, columns]


def _patch_of_each(pixels: int, patches: int) -> Tensor:
    return torch.arange(pixels) * patches // pixels
