"""Scores of an image's patches upsampled to pixels, unaffected by padding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.attribution import Stream
from whyformer.errors import InputError
from whyformer.metrics.token_order import finite_scores


def image_size(stream: Stream) -> tuple[int, int]:
    """(height, width) of the image that the model saw."""
    for seen in (stream.pixels, stream.image):
        if seen is not None:
            return seen.shape[-2], seen.shape[-1]
    raise InputError(
        f"stream '{stream.name}' does not know the size of its image",
        argument="stream",
        remedy="Use level='token'",
    )


def pixels_of(stream: Stream, patches: Tensor, size: tuple[int, int] | None = None) -> Tensor:
    """Which pixels belong to some patches, (batch, height, width)."""
    if stream.grid is None:
        raise InputError(
            f"stream '{stream.name}' has no grid: it is not an image",
            argument="stream",
            remedy="Pass the stream of the image",
        )
    maps = patches.unflatten(1, stream.grid).float()
    return _resize(maps, size or image_size(stream), "nearest") > 0


def pixel_map(stream: Stream, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Scores, and which of them are not padding, (batch, height, width) both.

    If the method gives pixel scores, these are used.
    """
    inside = pixels_of(stream, stream.mask, size)
    if stream.pixels is not None:
        pixels = finite_scores(stream.pixels, torch.ones_like(stream.pixels, dtype=torch.bool))
        same = pixels.shape[-2:] == torch.Size(size)
        return (pixels if same else _resize(pixels, size, "bilinear")), inside
    mask = stream.mask.unflatten(1, stream.grid or (1, -1))
    scores = finite_scores(stream.scores, stream.mask).unflatten(1, mask.shape[1:])
    # Padding takes its neighbours' scores, so that a pixel beside it equals, to the last bit, what
    # it would be at the edge of the image: equal pixels must stay equal.
    scores = _extend_into_padding(scores, mask, 2)
    scores = _extend_into_padding(scores, mask.any(2, keepdim=True).expand_as(mask), 1)
    return _resize(scores, size, "bilinear").masked_fill(~inside, 0), inside


def minmax(scores: Tensor, counted: Tensor) -> Tensor:
    """Each sample's scores scaled to 0..1, (batch, items); all 0 if they are all equal."""
    low = scores.masked_fill(~counted, torch.inf).amin(1, keepdim=True)
    span = scores.masked_fill(~counted, -torch.inf).amax(1, keepdim=True) - low
    scaled = (scores - low) / span.where(span > 0, 1)
    return scaled.where(counted & (span > 0), 0)


def _extend_into_padding(maps: Tensor, mask: Tensor, dim: int) -> Tensor:
    """Maps whose padding has the score of the last patch before it, else of the first after."""
    length = maps.shape[dim]
    shape = [1, 1, 1]
    shape[dim] = length
    index = torch.arange(length, device=maps.device).reshape(shape)
    before = torch.where(mask, index, -1).cummax(dim).values
    behind = torch.where(mask, index, length).flip(dim).cummin(dim).values.flip(dim)
    nearest = torch.where(before >= 0, before, behind).clamp(max=length - 1)
    return maps.gather(dim, nearest)


def _resize(maps: Tensor, size: tuple[int, int], mode: str) -> Tensor:
    corners = False if mode == "bilinear" else None
    return F.interpolate(maps.unsqueeze(1), size, mode=mode, align_corners=corners).squeeze(1)
