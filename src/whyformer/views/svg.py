"""SVG: the picture of png.py as vectors, sharp at any size."""

from __future__ import annotations

from whyformer.attribution import views
from whyformer.views.png import Png
from whyformer.views.sheet import Format


class Svg(Png):
    """The same words, overlays and bars; only photographs stay made of pixels."""

    name: Format = "svg"
    title = "the picture as vectors, for the web and for editing"


views.register("svg", Svg())
