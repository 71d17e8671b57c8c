"""The view `pdf`: the picture as PDF."""

from __future__ import annotations

from whyformer.attribution import view
from whyformer.render.picture.canvas import Format
from whyformer.render.picture.picture import PictureView


@view(
    "pdf",
    title="a vector picture for LaTeX",
    suffix=".pdf",
    media_type="application/pdf",
    is_picture=True,
    options=("subwords", "colours", "specials", "photo"),
    comparison_options=("scale",),
)
class Pdf(PictureView):
    """Coloured words, overlays and bars as PDF."""

    format: Format = "pdf"
