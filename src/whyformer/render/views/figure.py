"""The view `figure`: a grid of words or overlays with colour bars, for a paper."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.attribution import Attribution, view
from whyformer.render.picture.figure import figure


@view("figure", title="a grid of words or overlays with colour bars, for a paper", is_picture=True)
class FigureView:
    """One row per attribution and one cell per sample, as PNG."""

    def render(self, attribution: Attribution) -> bytes:
        """Return the samples in one row."""
        return figure(attribution).file()

    def render_comparison(self, attributions: Sequence[Attribution]) -> bytes:
        """Return one row per attribution."""
        return figure([[attribution] for attribution in attributions]).file()
