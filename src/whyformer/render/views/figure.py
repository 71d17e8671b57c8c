"""The view `figure`: a grid of words or overlays with colour bars, for a paper."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.attribution import Attribution, view
from whyformer.render.comparison import OWN, SHARED, check_scale
from whyformer.render.picture.figure import figure


@view(
    "figure",
    title="a grid of words or overlays with colour bars, for a paper",
    is_picture=True,
    comparison_options=("scale",),
)
class FigureView:
    """One row per attribution and one cell per sample, as PNG."""

    def render(self, attribution: Attribution) -> bytes:
        """Return the samples in one row."""
        return figure(attribution).file()

    def render_comparison(self, attributions: Sequence[Attribution], *, scale: str = OWN) -> bytes:
        """Return one row per attribution."""
        check_scale(scale, [a.method for a in attributions if a.conservation is None])
        shared = "figure" if scale == SHARED else "cell"
        return figure([[attribution] for attribution in attributions], scale=shared).file()
