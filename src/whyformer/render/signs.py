"""Signs for what cannot be seen: white space, control characters, an empty token."""

from __future__ import annotations

from whyformer.attribution.characters import hide_controls

LONGEST = 160  # characters of an answer in a heading; the views have all of it elsewhere
_SIGNS = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}
_ALONE = {" ": "␣", "": "∅"}


def visible(text: str) -> str:
    """Return a token with nothing hidden: white space and control characters get a sign."""
    trimmed = text.strip(" ") or text[:1]
    return _ALONE.get(trimmed) or hide_controls(trimmed, _SIGNS)


def short(label: str) -> str:
    """Return the label, cut if it is a long answer."""
    return label if len(label) <= LONGEST else label[: LONGEST - 10].rstrip() + "…"
