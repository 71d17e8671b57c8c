"""Patch scores painted over the image that the model saw."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from whyformer.render.colours import LIGHT, Theme
from whyformer.render.panels import ImagePanel

SEEN, OVERLAY, PATCHES = "what the model saw", "overlay", "patches"
STRONGEST = 0.8  # opacity of the strongest patch
DARKEST, BRIGHTEST = 0.2, 0.9  # of the grey image
BARE = 8  # pixels per patch if there is no image
_LUMA = torch.tensor([0.2126, 0.7152, 0.0722], dtype=torch.float64)


def spread_patches(
    patches: Tensor, size: tuple[int, int], mode: Literal["nearest", "bilinear"]
) -> Tensor:
    """Return the scores of patches (rows, columns) on the pixels of an image, (height, width).

    A patch covers height // rows pixels. Pixels left over at the right and the bottom were not
    seen by any patch and stay 0.
    """
    covered = [
        pixels // n * n if pixels >= n else pixels
        for pixels, n in zip(size, patches.shape, strict=True)
    ]
    over = functional.interpolate(
        patches[None, None],
        size=covered,
        # Both keep a patch centred on its pixels; plain "nearest" does not.
        mode="nearest-exact" if mode == "nearest" else mode,
        align_corners=False if mode == "bilinear" else None,
    )[0, 0]
    bottom, right = (pixels - n for pixels, n in zip(size, covered, strict=True))
    return functional.pad(over, (0, right, 0, bottom))


def heat_map(shares: Tensor, theme: Theme = LIGHT) -> Tensor:
    """Return values in -1..1 as colours, (height, width, 3) in 0..1."""
    return theme.paint(shares)


def overlay_image(image: Tensor, shares: Tensor, theme: Theme = LIGHT) -> Tensor:
    """Return the grey image under the colours of `shares` (height, width), (height, width, 3).

    Grey, because a red car under a red heat map could not be seen; neither black nor white,
    because weak colours look the same on them.
    """
    grey = DARKEST + (BRIGHTEST - DARKEST) * (channels_last(image) @ _LUMA)
    grey = grey.unsqueeze(-1).expand(-1, -1, 3)
    cover = STRONGEST * shares.nan_to_num().clamp(-1, 1).abs().unsqueeze(-1)
    painted = grey * (1 - cover) + theme.paint(shares.nan_to_num().sign()) * cover
    return torch.where(shares.isfinite().unsqueeze(-1), painted, theme.paint(shares))


def channels_last(image: Tensor) -> Tensor:
    """Return an image (3, height, width) as (height, width, 3) in 0..1."""
    return image.permute(1, 2, 0).clamp(0, 1)


def panel_pictures(panel: ImagePanel, theme: Theme = LIGHT) -> list[tuple[str, Tensor]]:
    """Return (caption, picture (height, width, 3)) of input, overlay, patches and pixels.

    The overlay is smoothed to look good, the patches are not, to be exact. It lies on the
    original photo if the panel has it.
    """
    if panel.image is None:
        rows, columns = panel.shares.shape
        size = (rows * BARE, columns * BARE)
        shown = [(PATCHES, heat_map(spread_patches(panel.shares, size, "nearest"), theme))]
    else:
        height, width = panel.image.shape[1:]
        smooth = spread_patches(panel.shares, (height, width), "bilinear")
        exact = spread_patches(panel.shares, (height, width), "nearest")
        shown = [
            (SEEN, channels_last(panel.image)),
            (OVERLAY, overlay_image(panel.image, smooth, theme)),
            (PATCHES, heat_map(exact, theme)),
        ]
        if panel.photo is not None:
            shown[1] = (OVERLAY, _photo_overlay(panel, theme))
    if panel.pixel_shares is not None:
        shown.append(("pixels, on their own scale", heat_map(panel.pixel_shares, theme)))
    return shown


def _photo_overlay(panel: ImagePanel, theme: Theme) -> Tensor:
    """The photo in grey; colours where the model saw it."""
    assert panel.photo is not None
    assert panel.crop is not None
    top, left, height, width = panel.crop
    shares = torch.zeros(panel.photo.shape[1:], dtype=torch.float64)
    seen = spread_patches(panel.shares, (height, width), "bilinear")
    shares[top : top + height, left : left + width] = seen
    return overlay_image(panel.photo, shares, theme)


def overlay_row(
    titles: Sequence[str], panels: Sequence[ImagePanel], theme: Theme = LIGHT
) -> list[tuple[str, Tensor]]:
    """Return (title, picture) of the input and of every panel's overlay or patches."""
    each = [dict(panel_pictures(panel, theme)) for panel in panels]
    seen = [(SEEN, each[0][SEEN])] if SEEN in each[0] else []
    return seen + [
        (title, shown.get(OVERLAY, shown[PATCHES]))
        for title, shown in zip(titles, each, strict=True)
    ]


def encode_png(picture: Tensor) -> bytes:
    """Return a picture (height, width, 3) in 0..1 as the bytes of a PNG file."""
    from PIL import Image

    buffer = BytesIO()
    Image.fromarray((picture * 255).round().byte().numpy()).save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
