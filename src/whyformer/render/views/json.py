"""The view `json`: everything `Attribution.to_dict` returns, for other programs."""

from __future__ import annotations

from collections.abc import Sequence

from whyformer.attribution import Attribution, view
from whyformer.render.json_text import to_json


@view("json", title="all numbers as JSON", suffix=".json", media_type="application/json")
class Json:
    """JSON text; NaN and infinity become null."""

    def render(self, attribution: Attribution) -> str:
        """Return one JSON object."""
        return to_json(attribution.to_dict())

    def render_comparison(self, attributions: Sequence[Attribution]) -> str:
        """Return a JSON list with one object per attribution."""
        return to_json([attribution.to_dict() for attribution in attributions])
