"""Hide control characters: text of unknown origin must not steer a terminal or reorder a line."""

from __future__ import annotations

import re
from collections.abc import Mapping

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

# Control characters (C0, DEL, C1), line and paragraph separators, bidirectional embeddings,
# overrides and isolates, and half characters (surrogates), which no file can hold.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_ON_ONE_LINE = {"\n": " ", "\r": " ", "\t": " "}


def hide_controls(text: object, signs: Mapping[str, str] = _ON_ONE_LINE) -> str:
    """Return the text with every control and bidirectional character replaced.

    Args:
        text: Anything; `str()` of it is used.
        signs: What to write for some of these characters. The default puts the text on one line.
            All others become U+FFFD.
    """
    return _HIDDEN.sub(lambda found: signs.get(found[0], REPLACEMENT), str(text))
