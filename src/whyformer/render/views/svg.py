"""SVG: the picture of png.py as vectors, sharp at any size."""

from __future__ import annotations

from whyformer.attribution import views
from whyformer.render.picture.canvas import Format
from whyformer.render.picture.picture import Png


class Svg(Png):
    """The same words, overlays and bars; only photographs stay made of pixels."""

    name: Format = "svg"
    title = "the picture as vectors, for the web and for editing"


views.register("svg", Svg())
