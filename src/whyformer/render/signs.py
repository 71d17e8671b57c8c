"""Signs for what cannot be seen: white space, control characters, an empty token."""

from __future__ import annotations

from whyformer.attribution.characters import hide_controls

_SIGNS = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}
_ALONE = {" ": "␣", "": "∅"}


def visible(text: str) -> str:
    """Return a token with nothing hidden: white space and control characters get a sign."""
    trimmed = text.strip(" ") or text[:1]
    return _ALONE.get(trimmed) or hide_controls(trimmed, _SIGNS)
