"""The view `notebook_picture`: what a notebook keeps beside the HTML of a cell."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.attribution import Attribution, view
from whyformer.render.comparison import OWN
from whyformer.render.picture.picture import draw_attribution, draw_comparison
from whyformer.render.views.notebook import MOST, first_samples


@view(
    "notebook_picture",
    title="the output of a notebook cell, as a picture",
    comparison_options=("scale",),
)
class NotebookPicture:
    """The first samples as PNG, for places that show no HTML, such as PDF exports."""

    def render(self, attribution: Attribution) -> bytes:
        """Return the PNG of the samples that the cell shows."""
        return draw_attribution(first_samples(attribution, MOST)).file("png")

    def render_comparison(self, attributions: Sequence[Attribution], *, scale: str = OWN) -> bytes:
        """Return the PNG of the comparison that the cell shows."""
        few = [first_samples(attribution, MOST) for attribution in attributions]
        return draw_comparison(few, scale=scale).file("png")
