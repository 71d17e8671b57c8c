"""Plain data as JSON text."""

from __future__ import annotations

import json
import math
from typing import Any


def to_json(data: Any) -> str:
    """Return the data as JSON. NaN and infinity, which JSON does not have, become null."""
    return json.dumps(_finite(data), ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {str(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
