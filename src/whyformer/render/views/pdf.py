"""PDF: the picture of png.py as vectors, for LaTeX."""

from __future__ import annotations

from whyformer.attribution import views
from whyformer.render.picture.canvas import Format
from whyformer.render.picture.picture import Png


class Pdf(Png):
    """The same words, overlays and bars; only photographs stay made of pixels."""

    name: Format = "pdf"
    title = "the picture as vectors, for LaTeX"


views.register("pdf", Pdf())
