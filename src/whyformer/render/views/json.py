"""JSON: everything `Attribution.to_dict` holds, for other programs."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from whyformer.attribution import Attribution, views


class Json:
    """Plain data as text; numbers that JSON has no word for (NaN, infinity) become null."""

    name = "json"
    title = "all numbers as JSON text"

    def render(self, attribution: Attribution) -> str:
        """One JSON object."""
        return _text(attribution.to_dict())

    def render_comparison(self, attributions: Sequence[Attribution]) -> str:
        """A JSON list with one object per attribution."""
        return _text([attribution.to_dict() for attribution in attributions])


def _text(data: Any) -> str:
    return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


views.register("json", Json())
