"""Colours that need no style sheet, for notebooks on sites that remove style sheets and scripts.

A sanitizer may keep inline styles (then words have a tint) or remove them too (then squares, which
an inline style hides otherwise, become visible).
"""

from __future__ import annotations

from markupsafe import Markup

from whyformer.render.colours import LIGHT, STEPS, Colour, step

# The page may be light or dark. A tint lets the page shine through and leaves the text as it is;
# this is the strongest one on which the text of both has a contrast of 4.5.
STRONGEST_TINT = 0.6
FOR, AGAINST = "\N{LARGE ORANGE SQUARE}", "\N{LARGE BLUE SQUARE}"


def tint(share: float) -> Markup:
    """Return the style attribute with the background of a share in -1..1; "" for 0."""
    whole = step(share)
    if not whole:
        return Markup("")
    return Markup(' style="background-color:{}"').format(
        _rgba(LIGHT.warm if whole > 0 else LIGHT.cool, STRONGEST_TINT * abs(whole) / STEPS)
    )


def bar_style(length: float, both: bool, inline: bool) -> str:
    """Return the style of a bar of length -1..1, from the middle of its cell if `both`."""
    size = 100 * abs(length)
    place = f"width:{size:.1f}%"
    if both:
        place = f"width:{size / 2:.1f}%;margin-left:{50 - size / 2 if length < 0 else 50:.1f}%"
    if not inline:
        return place
    colour = _rgba(LIGHT.warm if length > 0 else LIGHT.cool, 1)
    return f"{place};display:block;height:11px;background-color:{colour}"


def squares(length: float, most: int) -> Markup:
    """Return a bar of at most `most` squares that only shows where styles are removed."""
    count = round(most * abs(length)) if length == length else 0
    signs = (FOR if length > 0 else AGAINST) * count
    return Markup('<span style="display:none">{}</span>').format(signs) if signs else Markup("")


def _rgba(colour: Colour, opacity: float) -> str:
    return "rgba({},{},{},{:.3g})".format(*colour, opacity)
