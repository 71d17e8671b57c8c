"""Patch scores brought onto the pixels that the model saw, and painted there."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from whyformer.render.colours import LIGHT
from whyformer.render.panels import ImagePanel

SEEN, OVERLAY, PATCHES = "what the model saw", "overlay", "patches"
STRONGEST = 0.8  # how much of a pixel the strongest patch may cover: the picture shines through
DARKEST, BRIGHTEST = 0.2, 0.9  # of the grey image
BARE = 8  # pixels per patch where there is no image to lie on
_LUMA = torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)


def spread_patches(
    patches: Tensor, size: tuple[int, int], mode: Literal["nearest", "bilinear"]
) -> Tensor:
    """Scores of the patches (rows, columns) over an image of `size`, (height, width).

    A patch covers height // rows pixels. What is left over at the right and at the bottom was
    cut off by the patch convolution: no patch saw it and it stays 0.
    """
    covered = [
        pixels // n * n if pixels >= n else pixels
        for pixels, n in zip(size, patches.shape, strict=True)
    ]
    over = functional.interpolate(
        patches[None, None],
        size=covered,
        # Both put a patch's centre at the centre of its pixels; plain "nearest" does not.
        mode="nearest-exact" if mode == "nearest" else mode,
        align_corners=False if mode == "bilinear" else None,
    )[0, 0]
    bottom, right = (pixels - n for pixels, n in zip(size, covered, strict=True))
    return functional.pad(over, (0, right, 0, bottom))


def heat_map(shares: Tensor) -> Tensor:
    """Values in -1..1 in colour, (height, width, 3) in 0..1."""
    return LIGHT.paint(shares)


def overlay_image(image: Tensor, shares: Tensor) -> Tensor:
    """The image in grey under the colours of `shares` (height, width), (height, width, 3).

    Grey, because a red car under a red heat map would say nothing; and neither black nor white,
    on which weak colours cannot be told apart.
    """
    grey = DARKEST + (BRIGHTEST - DARKEST) * (channels_last(image) @ _LUMA)
    grey = grey.unsqueeze(-1).expand(-1, -1, 3)
    cover = STRONGEST * shares.nan_to_num().clamp(-1, 1).abs().unsqueeze(-1)
    return grey * (1 - cover) + LIGHT.paint(shares.nan_to_num().sign()) * cover


def channels_last(image: Tensor) -> Tensor:
    """An image (3, height, width) as views draw it, (height, width, 3) in 0..1."""
    return image.permute(1, 2, 0).clamp(0, 1)


def panel_pictures(panel: ImagePanel) -> list[tuple[str, Tensor]]:
    """(caption, picture (height, width, 3)) of all there is to see, in reading order.

    The overlay is smoothed to be pleasant, the patches next to it are bare to be exact.
    """
    if panel.image is None:
        rows, columns = panel.shares.shape
        size = (rows * BARE, columns * BARE)
        shown = [(PATCHES, heat_map(spread_patches(panel.shares, size, "nearest")))]
    else:
        height, width = panel.image.shape[1:]
        smooth = spread_patches(panel.shares, (height, width), "bilinear")
        exact = spread_patches(panel.shares, (height, width), "nearest")
        shown = [
            (SEEN, channels_last(panel.image)),
            (OVERLAY, overlay_image(panel.image, smooth)),
            (PATCHES, heat_map(exact)),
        ]
    if panel.pixel_shares is not None:
        shown.append(("pixels, on a scale of their own", heat_map(panel.pixel_shares)))
    return shown


def overlay_row(titles: Sequence[str], panels: Sequence[ImagePanel]) -> list[tuple[str, Tensor]]:
    """(title, picture) of what the model saw and then of every panel's overlay or bare patches."""
    each = [dict(panel_pictures(panel)) for panel in panels]
    seen = [(SEEN, each[0][SEEN])] if SEEN in each[0] else []
    return seen + [
        (title, shown.get(OVERLAY, shown[PATCHES]))
        for title, shown in zip(titles, each, strict=True)
    ]


def encode_png(picture: Tensor) -> bytes:
    """A picture (height, width, 3) in 0..1 as a PNG file of the same size."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray((picture * 255).round().byte().numpy()).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
