"""The panels of a sample: a stream of words or the patches of an image, with a colour scale."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from whyformer.render.answer import AnswerWord, is_unsure
from whyformer.render.numbers import number
from whyformer.render.relevance_matrix import Item
from whyformer.render.sentences import split_sentences

# Rounding noise of a method that is never negative must not turn its scale into a signed one.
NOISE = 1e-6
LONG = 300  # a text with more words is shown by sentences
APART = 3  # special tokens in a list of the strongest words
SILENT = "Every score here is 0."


def direction(text: str) -> str:
    """Return "rtl" if the first letter with a direction runs right to left, else "ltr"."""
    kinds = (unicodedata.bidirectional(c) for c in text)
    strong = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"


@dataclass(frozen=True)
class Word:
    """A word and its score; `special` if the tokenizer added it ([CLS], <s>, ...)."""

    text: str
    score: float
    special: bool = False
    deciding: bool = False  # the head reads the answer here
    probability: float | None = None  # of a generated word

    @property
    def broken(self) -> bool:
        """Whether the score is NaN or infinite."""
        return not math.isfinite(self.score)

    @property
    def unsure(self) -> bool:
        """Whether the model wrote this word and was not sure of it."""
        return is_unsure(self.probability)


@dataclass(frozen=True)
class BarRow:
    """A line of a table: name, score, and the length of its bar, -1..1.

    Bars are in proportion: the longest one is the largest score. Special tokens and the deciding
    token are apart: they often have many times the score of a word, and do not set the scale.
    """

    name: str
    score: float
    length: float
    apart: bool = False
    beyond: bool = False  # whether the bar is cut at the end of the scale


def _rows(scored: Sequence[tuple[str, float]], apart: Sequence[bool] = ()) -> list[BarRow]:
    flags = list(apart) or [False] * len(scored)
    if all(flags):
        flags = [False] * len(scored)  # without words, the others set the scale
    own = [abs(s) for (_, s), odd in zip(scored, flags, strict=True) if not odd]
    longest = max(filter(math.isfinite, own), default=0.0)
    longest = longest or max((abs(s) for _, s in scored if math.isfinite(s)), default=0.0) or 1.0
    return [
        BarRow(name, score, _scale_share(score, longest), odd, abs(score) > longest * (1 + NOISE))
        for (name, score), odd in zip(scored, flags, strict=True)
    ]


def strongest_rows(rows: Sequence[BarRow], count: int) -> list[BarRow]:
    """Return the rows with the largest |score|, strongest first, and then those that are apart."""
    own = [row for row in rows if not row.apart]
    odd = [row for row in rows if row.apart and row.score]
    strongest = sorted(own, key=lambda row: -abs(row.length))[:count]
    return strongest + sorted(odd, key=lambda row: -abs(row.score))[:APART]


@dataclass(frozen=True)
class TextPanel:
    """A stream of words; `span` is the score with full colour."""

    name: str
    words: tuple[Word, ...]
    span: float
    signed: bool
    unit: str = "words"
    full_at: str = "the strongest word"
    output_words: tuple[Item, ...] = ()  # the generated words, if they are not these words
    subwords: tuple[Word, ...] = ()  # the tokens, if some word has several
    answer: tuple[AnswerWord, ...] = ()  # the generated words, if the stream was generated
    in_parts: bool = False  # whether the answer was explained by spans of several words
    roles: tuple[tuple[int, int, str], ...] = ()  # (start, end, role) of chat messages, in words

    def share(self, word: Word) -> float:
        """Return the word's place on the colour scale, -1..1."""
        return _scale_share(word.score, self.span)

    def is_beyond(self, word: Word) -> bool:
        """Return whether the score of the word, a special or deciding one, is off the scale."""
        return not word.broken and abs(word.score) > self.span * (1 + NOISE)

    @property
    def silent(self) -> bool:
        """Whether every score is 0."""
        return not any(word.score for word in self.words)

    @property
    def long(self) -> bool:
        """Whether the text is too long to be read word by word."""
        return len(self.words) > LONG

    @property
    def turns(self) -> list[tuple[str, tuple[Word, ...]]]:
        """The (role, words) of each chat message; all words at once if there are no roles."""
        if not self.roles:
            return [("", self.words)]
        return [(role, self.words[start:end]) for start, end, role in self.roles]

    @property
    def sentences(self) -> tuple[tuple[int, int], ...]:
        """The (start, end) of every sentence, line and message, in words."""
        breaks = {start for start, _, _ in self.roles}
        return split_sentences([word.text for word in self.words], breaks)

    @property
    def sentence_scores(self) -> tuple[float, ...]:
        """The sum of the scores of each sentence."""
        finite = [word.score if math.isfinite(word.score) else 0.0 for word in self.words]
        return tuple(math.fsum(finite[start:end]) for start, end in self.sentences)

    @property
    def sentence_span(self) -> float:
        """The score of a sentence with full colour; special tokens do not count."""
        own = [0.0 if w.special or not math.isfinite(w.score) else w.score for w in self.words]
        sums = [abs(math.fsum(own[start:end])) for start, end in self.sentences]
        every = map(abs, self.sentence_scores)
        return max(sums, default=0.0) or max(every, default=0.0) or 1.0

    @property
    def note(self) -> str:
        """The note about words that are off the scale, or ""."""
        return self._note(self.words)

    @property
    def subwords_note(self) -> str:
        """The same note for tokens."""
        return self._note(self.subwords)

    def _note(self, words: Sequence[Word]) -> str:
        beyond = [word for word in words if self.is_beyond(word)]
        notes = []
        if beyond:
            names = ", ".join(f"{word.text} ({number(word.score, self.span)})" for word in beyond)
            are = "is" if len(beyond) == 1 else "are"
            notes.append(f"Colours are scaled to {self.full_at}; {names} {are} off the scale.")
        if broken := sum(word.broken for word in words):
            notes.append(_broken_note(broken, len(words), self.unit))
        return " ".join(notes)

    @property
    def direction(self) -> str:
        """The direction of the text, "ltr" or "rtl"."""
        return direction("".join(word.text for word in self.words if not word.special))

    @property
    def rows(self) -> list[BarRow]:
        """Every word in order, as lines of a table."""
        odd = [word.special or word.deciding for word in self.words]
        return _rows([(word.text, word.score) for word in self.words], odd)


@dataclass(frozen=True)
class ImagePanel:
    """The patches of an image; `span` is the score with full colour."""

    name: str
    patches: Tensor  # (rows, columns)
    span: float
    signed: bool
    image: Tensor | None = None  # (3, height, width) in 0..1
    pixels: Tensor | None = None  # (height, width)
    unit: str = "patches"
    full_at: str = "the strongest patch"
    photo: Tensor | None = None  # the original, (3, height, width) in 0..1
    crop: tuple[int, int, int, int] | None = None  # top, left, height, width of what was seen

    @property
    def shares(self) -> Tensor:
        """The patches' places on the colour scale, (rows, columns) in -1..1."""
        return self.patches / self.span

    @property
    def silent(self) -> bool:
        """Whether every score is 0."""
        return not bool(self.patches.any())

    @property
    def pixel_shares(self) -> Tensor | None:
        """The pixels' places on their own scale, (height, width) in -1..1."""
        return None if self.pixels is None else self.pixels / largest_score(self.pixels)

    @property
    def rows(self) -> list[BarRow]:
        """Every patch in order, as lines of a table; rows and columns count from 1."""
        return _rows(
            [
                (f"row {i}, column {j}", score)
                for i, line in enumerate(self.patches.tolist(), start=1)
                for j, score in enumerate(line, start=1)
            ]
        )

    @property
    def note(self) -> str:
        """The note about patches without a finite score, or ""."""
        broken = int((~self.patches.isfinite()).sum())
        return _broken_note(broken, self.patches.numel(), self.unit) if broken else ""


Panel = TextPanel | ImagePanel


def _broken_note(broken: int, count: int, unit: str) -> str:
    return f"{broken} of {count} {unit} (purple) have scores that are NaN or infinite."


def largest_score(scores: Tensor) -> float:
    """Return the largest finite |score|, or 1 if all are 0."""
    finite = scores[torch.isfinite(scores)].abs()
    return (float(finite.max()) if len(finite) else 0.0) or 1.0


def _scale_share(score: float, span: float) -> float:
    return max(-1.0, min(1.0, score / span)) if math.isfinite(score) else 0.0
