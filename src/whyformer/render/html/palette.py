"""The data with which a page's script paints: the palette and the patches of each picture."""

from __future__ import annotations

from typing import Any

from whyformer.render.colours import LIGHT, STEPS, css
from whyformer.render.overlay import BRIGHTEST, DARKEST, STRONGEST
from whyformer.render.panels import ImagePanel
from whyformer.render.view_model import SampleContent


def script_palette() -> dict[str, Any]:
    """Return the palette, the opacity of overlays, and the range of their grey."""
    return {
        "steps": STEPS,
        "palette": [css(LIGHT.colour(s / STEPS)) for s in range(-STEPS, STEPS + 1)],
        "cover": STRONGEST,
        "grey": [DARKEST, BRIGHTEST],
    }


def picture_payload(content: SampleContent) -> dict[str, Any] | None:
    """Return the patch shares of every panel with an image, or None if there is none."""
    pictures = [
        {
            "panel": i,
            "grid": list(panel.patches.shape),
            "shares": [round(v, 3) for v in panel.shares.nan_to_num().flatten().tolist()],
        }
        for i, panel in enumerate(content.panels)
        if isinstance(panel, ImagePanel) and panel.image is not None
    ]
    return {**script_palette(), "pictures": pictures} if pictures else None
