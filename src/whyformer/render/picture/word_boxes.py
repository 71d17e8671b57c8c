"""Words on a canvas, each in a coloured box, broken into lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from whyformer.render.colours import BROKEN, STEPS, Colour, Theme, ink, step
from whyformer.render.panels import TextPanel, Word
from whyformer.render.picture.canvas import Canvas, font
from whyformer.render.sentences import ends_line

if TYPE_CHECKING:
    from matplotlib.font_manager import FontProperties


@dataclass(frozen=True)
class PlacedWord:
    """A word, or a part of it, and its place: points from the left, and a line."""

    text: str
    word: Word
    x: float
    width: float
    line: int


@dataclass(frozen=True)
class WordBoxes:
    """A text broken into lines for one font size."""

    panel: TextPanel
    size: float
    placed: tuple[PlacedWord, ...]

    @property
    def line(self) -> float:
        """The height of one line, in points."""
        return 1.9 * self.size

    @property
    def height(self) -> float:
        """The height of all lines, in points."""
        return self.line * (1 + max((p.line for p in self.placed), default=0))

    def draw(self, canvas: Canvas, left: float) -> None:
        """Draw the text down from the current y. A dashed box marks a word off the scale."""
        top = canvas.y
        for placed in self.placed:
            canvas.y = top + (placed.line + 0.5) * self.line
            ground = word_colour(self.panel, placed.word, canvas.theme)
            dashed = self.panel.is_beyond(placed.word)
            canvas.box(left + placed.x, placed.width, 1.45 * self.size, ground, dashed=dashed)
            x = left + placed.x + _padding(self.size)
            canvas.write(x, placed.text, _face(placed.word, self.size), ink(ground))
        canvas.y = top + self.height


def word_colour(panel: TextPanel, word: Word, theme: Theme) -> Colour:
    """Return the background of a word."""
    return BROKEN if word.broken else theme.colour(step(panel.share(word)) / STEPS)


def word_boxes(canvas: Canvas, panel: TextPanel, room: float, size: float) -> WordBoxes:
    """Return the text broken to fit into `room` points, in letters of `size` points."""
    padding, gap, x, line = _padding(size), 0.23 * size, 0.0, 0
    placed: list[PlacedWord] = []
    for word in panel.words:
        if placed and ends_line(placed[-1].text):
            x, line = 0.0, line + 1
        face = _face(word, size)
        for piece in _pieces(canvas, word.text, face, room - 2 * padding):
            width = canvas.width(piece, face) + 2 * padding
            if x > 0 and x + width > room:
                x, line = 0.0, line + 1
            placed.append(PlacedWord(piece, word, x, width, line))
            x += width + gap
    return WordBoxes(panel, size, tuple(placed))


def _padding(size: float) -> float:
    return 0.27 * size


def _face(word: Word, size: float) -> FontProperties:
    return font(0.82 * size, style="italic") if word.special else font(size)


def _pieces(canvas: Canvas, text: str, face: FontProperties, room: float) -> list[str]:
    """The whole word, or pieces of it that fit."""
    if len(text) < 2 or canvas.width(text, face) <= room:
        return [text]
    half = len(text) // 2
    return _pieces(canvas, text[:half], face, room) + _pieces(canvas, text[half:], face, room)
