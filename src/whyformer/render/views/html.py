"""The view `html`: a web page that needs no other file and no network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whyformer.attribution import Attribution, view
from whyformer.render.comparison import OWN
from whyformer.render.html.page import build_comparison_page, build_page


@view(
    "html",
    title="a web page",
    suffix=".html",
    media_type="text/html; charset=utf-8",
    comparison_options=("scale",),
)
class Html:
    """A self-contained page, light or dark like the reader's browser."""

    def render(self, attribution: Attribution) -> str:
        """Return the page of all samples."""
        return build_page(attribution).to_html()

    def render_comparison(
        self,
        attributions: Sequence[Attribution] | Mapping[str, Attribution],
        *,
        scale: str = OWN,
    ) -> str:
        """Return a page that switches between attributions of one input; a mapping names them."""
        return build_comparison_page(attributions, scale).to_html()
