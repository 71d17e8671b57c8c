"""What a page's script paints with: the palette, and the shares of each picture's patches."""

from __future__ import annotations

from typing import Any

from whyformer.render.colours import LIGHT, STEPS, css
from whyformer.render.overlay import BRIGHTEST, DARKEST, STRONGEST
from whyformer.render.panels import ImagePanel
from whyformer.render.view_model import SampleContent


def script_palette() -> dict[str, Any]:
    """The palette, how much of a picture colours cover at first, and the ends of its grey."""
    return {
        "steps": STEPS,
        "palette": [css(LIGHT.colour(s / STEPS)) for s in range(-STEPS, STEPS + 1)],
        "cover": STRONGEST,
        "grey": [DARKEST, BRIGHTEST],
    }


def picture_payload(content: SampleContent) -> dict[str, Any] | None:
    """Shares of every picture with an image underneath; None where there is no such picture."""
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
