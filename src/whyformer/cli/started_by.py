"""The command that began a run: kept in its folder, so that `whyformer runs resume` repeats it."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping

SHORT = {"-o": "--out"}


def this_command() -> str:
    """Return the command of this process, as one line."""
    return shlex.join(["whyformer", *sys.argv[1:]])


def with_options(words: list[str], options: Mapping[str, str]) -> list[str]:
    """Set options of a command; replace the values that it had.

    An option that is there twice would be refused.
    """
    kept = []
    rest = iter(words)
    for word in rest:
        name, equals, _ = word.partition("=")
        name = SHORT.get(name, name)
        if name not in options:
            kept.append(word)
        elif not equals:
            next(rest, None)  # its value
    return [*kept, *(part for option in options.items() for part in option)]
