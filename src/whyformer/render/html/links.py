"""The data with which a page links its streams, as JSON that is safe inside a script element."""

from __future__ import annotations

import json
from typing import Any

from whyformer.render.html.palette import script_palette
from whyformer.render.panels import ImagePanel, Panel
from whyformer.render.relevance_matrix import RelevanceMatrix
from whyformer.render.view_model import SampleContent

DIGITS = 999  # the largest value of a row in its unit: three digits

# Inside a script element nothing may look like markup or end a line of JavaScript. A surrogate,
# which a broken tokenizer may leave, cannot be written to a file.
_UNSAFE = {
    code: f"\\u{code:04x}" for code in (*map(ord, "<>&\u2028\u2029"), *range(0xD800, 0xE000))
}


def link_payload(content: SampleContent) -> dict[str, Any] | None:
    """Return the panels and the matrices between them, or None if there are none."""
    if not content.matrices:
        return None
    names = [panel.name for panel in content.panels]
    return {
        **script_palette(),
        "panels": [_panel(panel) for panel in content.panels],
        "maps": [
            {"asking": names.index(m.asking), "answering": names.index(m.answering), **pack_rows(m)}
            for m in content.matrices
        ],
    }


def _panel(panel: Panel) -> dict[str, Any]:
    known = {"name": panel.name, "unit": panel.unit, "silent": panel.silent}
    if not isinstance(panel, ImagePanel):
        return known
    strongest = int(panel.patches.nan_to_num().abs().argmax())
    return {**known, "grid": list(panel.patches.shape), "start": strongest}


def pack_rows(matrix: RelevanceMatrix) -> dict[str, list[Any]]:
    """Return rows of integers, and the unit of each row: three digits of every value."""
    values = matrix.values.nan_to_num()
    largest = values.abs().amax(1) if values.numel() else values.sum(1)
    units = [float(f"{value / DIGITS:.4g}") for value in largest.tolist()]
    whole = [
        [round(value / unit) if unit else 0 for value in row]
        for row, unit in zip(values.tolist(), units, strict=True)
    ]
    return {"units": units, "rows": whole}


def script_json(data: Any) -> str:
    """Return JSON that is safe inside a script element, whatever text it contains."""
    return escape_json(json.dumps(data, separators=(",", ":"), allow_nan=False))


def escape_json(text: str) -> str:
    """Return JSON text, made safe for a script element."""
    return text.translate(_UNSAFE)
