"""The view `png`: the picture as PNG."""

from __future__ import annotations

from whyformer.attribution import view
from whyformer.render.picture.canvas import Format
from whyformer.render.picture.picture import PictureView


@view(
    "png",
    title="a picture",
    suffix=".png",
    media_type="image/png",
    is_picture=True,
    options=("subwords", "size", "dpi", "colours", "specials", "photo"),
    comparison_options=("scale",),
)
class Png(PictureView):
    """Coloured words, overlays and bars as PNG."""

    format: Format = "png"
