"""The panels of a sample: a stream of words or the patches of an image, with a colour scale."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.attribution.characters import hide_controls
from whyformer.render.numbers import number
from whyformer.render.relevance_matrix import Item

# Rounding noise of a method that is never negative must not turn its scale into a signed one.
NOISE = 1e-6
SILENT = "Every score here is 0."
_SIGNS = {"\n": "⏎", "\r": "⏎", "\t": "⇥"}
_ALONE = {" ": "␣", "": "∅"}


def visible(text: str) -> str:
    """Return a token with nothing hidden: white space and control characters get a sign."""
    trimmed = text.strip(" ") or text[:1]
    return _ALONE.get(trimmed) or hide_controls(trimmed, _SIGNS)


def direction(text: str) -> str:
    """ "rtl" where the first letter with a direction runs right to left, "ltr" otherwise."""
    kinds = (unicodedata.bidirectional(c) for c in text)
    strong = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"


@dataclass(frozen=True)
class Word:
    """A whole word, its score, and whether the tokenizer put it there ([CLS], <s>, ...)."""

    text: str
    score: float
    special: bool = False
    deciding: bool = False  # the answer is read here, so that it explains itself above all


@dataclass(frozen=True)
class BarRow:
    """A line of a table: what, its score, and the length of its bar, -1..1.

    Bars, unlike colours, are in true proportion: the longest belongs to the largest score.
    """

    name: str
    score: float
    length: float


def _rows(scored: Sequence[tuple[str, float]]) -> list[BarRow]:
    longest = max((abs(s) for _, s in scored if math.isfinite(s)), default=0.0) or 1.0
    return [BarRow(name, score, _scale_share(score, longest)) for name, score in scored]


def strongest_rows(rows: Sequence[BarRow], count: int) -> list[BarRow]:
    """The rows with the largest scores of either sign, strongest first."""
    return sorted(rows, key=lambda row: -abs(row.length))[:count]


@dataclass(frozen=True)
class TextPanel:
    """A stream of words, and `span`, the score at which colour is full."""

    name: str
    words: tuple[Word, ...]
    span: float
    signed: bool
    unit: str = "words"
    full_at: str = "the strongest word"
    said: tuple[Item, ...] = ()  # the output, word by word, where it is not these words themselves
    pieces: tuple[Word, ...] = ()  # the tokens, where some word is more than one

    def share(self, word: Word) -> float:
        """The word's place on the colour scale, -1..1."""
        return _scale_share(word.score, self.span)

    def is_beyond(self, word: Word) -> bool:
        """Whether the word, a special or deciding one, has more score than the scale has colour."""
        return abs(word.score) > self.span * (1 + NOISE)

    @property
    def silent(self) -> bool:
        """Whether there is no score in it at all."""
        return not any(word.score for word in self.words)

    @property
    def note(self) -> str:
        """What the scale leaves out, in words; nothing where it leaves out nothing."""
        return self._note(self.words)

    @property
    def pieces_note(self) -> str:
        """The same of the tokens, whose scale is that of the words."""
        return self._note(self.pieces)

    def _note(self, words: Sequence[Word]) -> str:
        beyond = [word for word in words if self.is_beyond(word)]
        if not beyond:
            return ""
        names = ", ".join(f"{word.text} ({number(word.score, self.span)})" for word in beyond)
        return f"Colour is full at {self.full_at}; beyond the scale: {names}."

    @property
    def direction(self) -> str:
        """Which way the text runs, "ltr" or "rtl": that of its first letter which has one."""
        return direction("".join(word.text for word in self.words if not word.special))

    @property
    def rows(self) -> list[BarRow]:
        """Every word in order, as a line of a table."""
        return _rows([(word.text, word.score) for word in self.words])


@dataclass(frozen=True)
class ImagePanel:
    """An image's patches, and `span`, the score at which colour is full."""

    name: str
    patches: Tensor  # (rows, columns)
    span: float
    signed: bool
    image: Tensor | None = None  # (3, height, width) in 0..1
    pixels: Tensor | None = None  # (height, width)
    unit: str = "patches"
    full_at: str = "the strongest patch"

    @property
    def shares(self) -> Tensor:
        """The patches' places on the colour scale, (rows, columns) in -1..1."""
        return self.patches / self.span

    @property
    def silent(self) -> bool:
        """Whether there is no score in it at all."""
        return not bool(self.patches.any())

    @property
    def pixel_shares(self) -> Tensor | None:
        """The pixels' places on a scale of their own, (height, width) in -1..1."""
        return None if self.pixels is None else self.pixels / largest_score(self.pixels)

    @property
    def rows(self) -> list[BarRow]:
        """Every patch in order, as a line of a table; rows and columns count from 1."""
        return _rows(
            [
                (f"row {i}, column {j}", score)
                for i, line in enumerate(self.patches.tolist(), start=1)
                for j, score in enumerate(line, start=1)
            ]
        )


Panel = TextPanel | ImagePanel


def largest_score(scores: Tensor) -> float:
    """Return the largest finite |score|, or 1 if all are 0."""
    finite = scores[torch.isfinite(scores)].abs()
    return (float(finite.max()) if len(finite) else 0.0) or 1.0


def _scale_share(score: float, span: float) -> float:
    return max(-1.0, min(1.0, score / span)) if math.isfinite(score) else 0.0
