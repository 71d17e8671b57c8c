"""The view `svg`: the picture as SVG."""

from __future__ import annotations

from whyformer.attribution import view
from whyformer.render.picture.canvas import Format
from whyformer.render.picture.picture import PictureView


@view(
    "svg",
    title="a vector picture",
    suffix=".svg",
    media_type="image/svg+xml",
    is_picture=True,
    options=("subwords", "colours", "specials", "photo"),
    comparison_options=("scale",),
)
class Svg(PictureView):
    """Coloured words, overlays and bars as SVG."""

    format: Format = "svg"
