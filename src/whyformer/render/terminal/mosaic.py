"""Pictures in characters: half blocks in colour, or signed digits without colour."""

from __future__ import annotations

from rich.style import Style
from rich.text import Text
from torch import Tensor
from torch.nn import functional

from whyformer.render.colours import css


def half_blocks(picture: Tensor, wide: int) -> Text:
    """Return a picture (height, width, 3) in at most `wide` columns, two pixels per character."""
    height, width = picture.shape[:2]
    columns = min(wide, width)
    lines = max(2, round(height * columns / width / 2) * 2)
    small = functional.interpolate(picture.permute(2, 0, 1)[None], (lines, columns), mode="area")
    dots = (small[0].permute(1, 2, 0) * 255).round().int().tolist()
    text = Text(no_wrap=True)
    for upper, lower in zip(dots[::2], dots[1::2], strict=True):
        for above, below in zip(upper, lower, strict=True):
            text.append("▀", Style(color=css(tuple(above)), bgcolor=css(tuple(below))))
        text.append("\n")
    text.right_crop(1)
    return text


def tenths(shares: Tensor, width: int) -> Text:
    """Return the patches as signed tenths of the scale, averaged if they do not fit."""
    rows, columns = shares.shape
    fits = min(columns, max(1, (width - 1) // 3))
    small = functional.adaptive_avg_pool2d(shares[None], (min(rows, fits), fits))[0]
    lines = [
        "".join(f"{round(10 * v):+3d}" if round(10 * v) else "  ." for v in line)
        for line in small.tolist()
    ]
    return Text("\n".join(["patches, in tenths of the scale", *lines]), no_wrap=True)
