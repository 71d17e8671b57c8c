"""The data with which a page switches between attributions of one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whyformer.render.comparison import ComparedSample
from whyformer.render.html.palette import script_palette
from whyformer.render.numbers import number
from whyformer.render.panels import ImagePanel, Panel

DIGITS = 999  # the largest score of a row in its unit: three digits


def switch_payload(sample: ComparedSample) -> dict[str, Any]:
    """Return the names to choose from, a summary of each, and its scores per stream."""
    return {
        **script_palette(),
        "choices": sample.choices,
        "readings": [
            {
                "label": content.label,
                "output": number(content.output),
                "chance": content.chance,
                "method": content.method,
                "accounted": content.trust,
            }
            for content in sample.contents
        ],
        "panels": [_row(panels) for panels in sample.rows],
    }


def _row(panels: Sequence[Panel]) -> dict[str, Any]:
    """One stream in every attribution, as integers with one unit each."""
    scores = [_scores(panel) for panel in panels]
    units = [max(map(abs, row), default=0.0) / DIGITS for row in scores]
    first = panels[0]
    grid = {"grid": list(first.patches.shape)} if isinstance(first, ImagePanel) else {}
    return {
        **grid,
        "spans": [panel.span for panel in panels],
        "signed": [panel.signed for panel in panels],
        "units": units,
        "values": [
            [round(value / unit) if unit else 0 for value in row]
            for row, unit in zip(scores, units, strict=True)
        ],
    }


def _scores(panel: Panel) -> list[float]:
    if isinstance(panel, ImagePanel):
        found: list[float] = panel.patches.nan_to_num().flatten().tolist()
        return found
    return [word.score if word.score == word.score else 0.0 for word in panel.words]
