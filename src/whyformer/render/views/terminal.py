"""The view `terminal`: coloured text, and numbers where there is no colour."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.attribution import Attribution, view
from whyformer.render.comparison import OWN
from whyformer.render.terminal.text import comparison_text, print_to_text, sample_text


@view(
    "terminal",
    title="coloured text for a terminal",
    options=("width", "bars", "subwords"),
    comparison_options=("scale",),
)
class Terminal:
    """Text in 24-bit colour. NO_COLOR in the environment is respected.

    `bars` adds a bar to every word, `subwords` shows the tokens of each word.
    """

    def render(
        self,
        attribution: Attribution,
        width: int | None = None,
        *,
        bars: bool = False,
        subwords: bool = False,
    ) -> str:
        """Return the samples below each other."""
        return print_to_text(sample_text(attribution, bars=bars, subwords=subwords), width)

    def render_comparison(
        self,
        attributions: Sequence[Attribution],
        width: int | None = None,
        *,
        bars: bool = False,
        subwords: bool = False,
        scale: str = OWN,
    ) -> str:
        """Return words down and attributions across, or a row of overlays."""
        shown = comparison_text(attributions, bars=bars, subwords=subwords, scale=scale)
        return print_to_text(shown, width)
