"""The colours, width and encoding of a console, and the characters that may reach it."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from unicodedata import bidirectional

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.style import Style

from whyformer.attribution.characters import hide_controls
from whyformer.render.colours import DARK, EITHER, LIGHT, STEPS, Theme, css, ink, step

POOR = (None, "standard", "windows")  # colour systems with too few colours
LEFT_TO_RIGHT = "\N{LEFT-TO-RIGHT MARK}"

_KEPT = {"\n": "\n"}
# What replaces our own signs if the encoding does not have them.
_PLAIN = str.maketrans("\N{MINUS SIGN}━╸╺│─▶◀…∅⏎", "-===|-><~0/")


@dataclass(frozen=True)
class InkBox:
    """The colours and the width of a console."""

    theme: Theme | None  # None: no colour
    width: int

    def style(self, share: float) -> Style:
        """Return background and text colour of a share; shares near 0 have none."""
        whole = step(share)
        if self.theme is None or abs(whole) < 2:
            return Style.null()
        ground = self.theme.colour(whole / STEPS)
        return Style(color=css(ink(ground)), bgcolor=css(ground))

    def pen(self, share: float) -> Style:
        """Return the full colour of a sign, for lines on the terminal's background."""
        if self.theme is None or not share:
            return Style.null()
        return Style(color=css(self.theme.warm if share > 0 else self.theme.cool))


@dataclass(frozen=True)
class ForConsole:
    """Blocks that choose their colours when they are printed: only then is the console known."""

    blocks: Callable[[InkBox], list[RenderableType]]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        poor = console.no_color or console.color_system in POOR
        box = InkBox(None if poor else _theme(), console.width)
        for segment in console.render(Group(*self.blocks(box)), options):
            yield Segment(
                console_text(segment.text, console.encoding), segment.style, segment.control
            )


def console_text(text: str, encoding: str = "utf-8") -> str:
    """Return the text without control characters, in characters that the encoding has."""
    text = hide_controls(text, _KEPT)
    name = codecs.lookup(encoding).name
    if name.startswith("utf"):
        return text
    return text.translate(_PLAIN).encode(name, "replace").decode(name)


def keep_left_to_right(name: str) -> str:
    """Return a row's name with a mark after right-to-left text, so numbers stay at the right."""
    turns = any(bidirectional(character) in ("R", "AL", "AN") for character in name)
    return name + LEFT_TO_RIGHT if turns else name


def _theme() -> Theme:
    """The theme for the background in COLORFGBG, or one for any background."""
    ground = os.environ.get("COLORFGBG", "").rpartition(";")[2]
    return {"": EITHER, "7": LIGHT, "15": LIGHT}.get(ground, DARK)
