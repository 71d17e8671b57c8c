"""One sample made ready to be shown: words and patches with their scales, and plain sentences.

Every view reads this and adds only ink, so that all of them say the same.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.render.relevance_matrix import Item, RelevanceMatrix, sum_to_words, word_positions
from whyformer.render.subwords import as_subwords

# Rounding noise of a method that is never negative must not turn its scale into a signed one.
NOISE = 1e-6
MINUS = "\N{MINUS SIGN}"

# What tokens without a text are called, by their stream; anywhere else a number has to do.
_UNNAMED = {"image": "region ", "audio": "frame "}
_UNITS = {"image": "regions", "audio": "frames", "queries": "queries"}

ONE_SCALE = "All streams share one colour scale: their scores are parts of one sum."
OWN_SCALE = "Each stream has a colour scale of its own: compare within a stream, not across."

_SHOWN = {
    "\n": "⏎",
    "\r": "⏎",
    "\t": "⇥",
    " ": "␣",
    "": "∅",
}
_BIDI = frozenset(map(chr, (*range(0x202A, 0x202F), *range(0x2066, 0x206A))))
SILENT = "Every score here is 0."


def visible(text: str) -> str:
    """The text with nothing hidden: white space alone gets a sign, control characters too.

    A token may carry an escape sequence or a direction override; neither may reach a terminal.
    """
    trimmed = text.strip(" ") or text[:1]
    signs = (_SHOWN.get(c, "�") if _hidden(c) else c for c in trimmed)
    return _SHOWN.get(trimmed) or "".join(signs)


def direction(text: str) -> str:
    """ "rtl" where the first letter with a direction runs right to left, "ltr" otherwise."""
    kinds = (unicodedata.bidirectional(c) for c in text)
    strong = next((kind for kind in kinds if kind in ("L", "R", "AL")), "L")
    return "ltr" if strong == "L" else "rtl"


def _hidden(character: str) -> bool:
    code = ord(character)
    control = code < 0x20 or 0x7F <= code < 0xA0 or code in (0x2028, 0x2029)
    return control or 0xD800 <= code < 0xE000 or character in _BIDI


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
    return [BarRow(name, score, _share(score, longest)) for name, score in scored]


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
        return _share(word.score, self.span)

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
        return None if self.pixels is None else self.pixels / _largest(self.pixels)

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


@dataclass(frozen=True)
class SampleContent:
    """Everything a view says about one sample."""

    label: str
    output: float
    method: str
    model: str
    options: str  # key=value, ...
    notes: tuple[str, ...]  # what was done to the input on the way, such as truncation
    sum_note: str  # how much of the output the scores and sinks add up to
    share: float | None  # the same as a number, where the method promises a sum
    stream_totals: tuple[tuple[str, float], ...]  # what each stream's tokens hold together
    sinks: tuple[tuple[str, float], ...]
    panels: tuple[Panel, ...]
    scales: str = ""  # whether streams can be compared by colour; nothing where there is but one
    matrices: tuple[
        RelevanceMatrix, ...
    ] = ()  # between streams, and from an output to what preceded it

    @property
    def totals(self) -> tuple[tuple[str, float], ...]:
        """Who holds how much of the output, where that is more than one number."""
        several = self.scales == ONE_SCALE
        total = ("tokens", sum(value for _, value in self.stream_totals))
        return (*(self.stream_totals if several else (total,)), *self.sinks) * bool(
            self.sinks or several
        )

    @property
    def generated(self) -> list[RelevanceMatrix]:
        """The matrices of output words against words: those that can be read as a table."""
        texts = {panel.name for panel in self.panels if isinstance(panel, TextPanel)}
        return [m for m in self.matrices if m.generated and m.answering in texts]


def read_samples(attribution: Attribution) -> list[SampleContent]:
    """What every sample says, in order; the main stream comes first in each."""
    return [_read_one(attribution, i) for i in range(len(attribution))]


def _read_one(attribution: Attribution, index: int) -> SampleContent:
    one = attribution[index]
    order = sorted(one.streams, key=lambda name: name != one.main)
    parts = {name: _part(attribution, one, name, index) for name in order}
    share = None if one.conservation is None else float(one.conservation[0])
    panels = tuple(part.panel for part in parts.values())
    together = one.conservation is not None
    return SampleContent(
        label=visible(one.labels[0]),
        output=float(one.output[0]),
        method=visible(one.method),
        model=visible(str(one.provenance.get("model") or "")),
        options=visible(", ".join(f"{k}={v}" for k, v in one.options.items())) * bool(one.options),
        notes=tuple(visible(str(note)) for note in one.provenance.get("notes") or ()),
        sum_note=describe_conservation(share, one.options.get("activations") == "gradient"),
        share=share,
        stream_totals=tuple(
            (visible(name), float(one.streams[name].scores.double().sum())) for name in order
        ),
        sinks=tuple(
            (visible(name).replace("_", " "), float(sink[0])) for name, sink in one.sinks.items()
        ),
        panels=_shared(panels) if together and len(panels) > 1 else panels,
        scales=(ONE_SCALE if together else OWN_SCALE) * (len(panels) > 1),
        matrices=_matrices(attribution, parts, index),
    )


def _shared(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    """The panels on one scale, which is full at the strongest of all of them."""
    # The span of a panel without any score is a stand-in, and no measure for the others.
    span = max((p.span for p in panels if not p.silent), default=1.0)
    signed = any(panel.signed for panel in panels)
    full_at = "the strongest of all streams"
    return tuple(replace(p, span=span, signed=signed, full_at=full_at) for p in panels)


# -- one stream ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A stream as a panel, and where its items are among the tokens of the batch."""

    panel: Panel
    answers: tuple[Item, ...]
    answering: list[list[int]]
    asks: tuple[Item, ...]
    asking: list[list[int]]
    says: bool  # whether what it asks about are words of an output


def _part(attribution: Attribution, one: Attribution, name: str, index: int) -> _Part:
    whole, stream = attribution.streams[name], one.streams[name]
    if whole.grid is not None and whole.grid[0] * whole.grid[1] == whole.scores.shape[1]:
        # Patches of padding are not cut off: without them the rest would lose its place.
        image = _image(whole, index)
        patches = tuple(Item(row.name) for row in image.rows)
        places = [[i] for i in range(len(patches))]
        return _Part(image, patches, places, patches, places, says=False)
    kept = whole.mask[index].nonzero().flatten().tolist()
    count = len(kept)
    words = _words(one, stream)
    answers = tuple(Item(word.text, word.special) for word in words)
    answering = word_positions(
        stream.word_ids[0] if stream.word_ids and stream.tokens else [None] * count
    )
    said, saying = _said(stream) if stream.said else (answers, answering)
    panel, apart = _text(stream.name, words), as_subwords(one)
    return _Part(
        replace(
            panel,
            said=() if _texts(said) == _texts(answers) else said,
            pieces=_words(apart, apart.streams[name]) if len(words) < count else (),
        ),
        answers,
        [[kept[i] for i in group] for group in answering],
        said,
        [[kept[i] for i in group] for group in saying],
        says=stream.said is not None or name == "generated",
    )


def _said(stream: Stream) -> tuple[tuple[Item, ...], list[list[int]]]:
    """What was said at each position, joined to words where the stream's own words tell how."""
    assert stream.said is not None
    said, count = stream.said[0], len(stream.said[0])
    tokens = stream.tokens[0] if stream.tokens else ("",) * count
    ids = stream.word_ids[0] if stream.word_ids else (None,) * count
    spoken = [i for i in range(count) if said[i]]
    # A decoder says its next input, so the words of its inputs are those of its output, one later.
    fits = (
        s for s in (0, 1) if all(said[i] == t for i in spoken for t in tokens[i + s : i + s + 1])
    )
    shift = next(fits, count)
    moved = [ids[i + shift] if i + shift < count else None for i in range(count)]
    groups = [group for group in word_positions(moved) if all(said[i] for i in group)]
    texts = [visible("".join(said[i] for i in group)) for group in groups]
    added = [visible(t) for t, word in zip(tokens, ids, strict=True) if word is None]
    special = set(added if stream.word_ids else ())
    return tuple(Item(text, text in special) for text in texts), groups


def _texts(items: Sequence[Item]) -> list[str]:
    return [item.text for item in items]


def _text(name: str, words: tuple[Word, ...]) -> TextPanel:
    # The scale is that of the strongest word of the user's own: [CLS] and [SEP], and the token
    # that decides, often hold many times as much, and scaled by them all words would look alike.
    own = [abs(w.score) for w in words if not (w.special or w.deciding) and math.isfinite(w.score)]
    every = [abs(w.score) for w in words if math.isfinite(w.score)]
    span = max(own, default=0.0) or max(every, default=0.0) or 1.0
    signed = any(w.score < -NOISE * span for w in words)
    return TextPanel(name, words, span, signed, unit=_UNITS.get(name, "words"))


def _image(stream: Stream, index: int) -> ImagePanel:
    patches = stream.score_map[index].detach().cpu().double()
    span = _largest(patches)
    return ImagePanel(
        stream.name,
        patches,
        span,
        signed=bool((patches < -NOISE * span).any()),
        image=None if stream.image is None else stream.image[index].detach().cpu().double(),
        pixels=None if stream.pixels is None else stream.pixels[index].detach().cpu().double(),
    )


def _words(one: Attribution, stream: Stream) -> tuple[Word, ...]:
    def decides(*columns: int) -> bool:
        # Where scores add up, the deciding token's is a part of the sum like any other.
        read = stream.deciding if one.conservation is None else None
        return read is not None and any(bool(read[0, column]) for column in columns)

    if stream.tokens is None:
        # Raw embeddings have no words: their positions stand in, counted from 0 as tensors are.
        scores, unit = stream.scores[0].tolist(), _UNNAMED.get(stream.name, "")
        return tuple(
            Word(f"{unit}{i}", score, deciding=decides(i)) for i, score in enumerate(scores)
        )
    groups = word_positions(stream.word_ids[0] if stream.word_ids else range(len(stream.tokens[0])))
    special = [stream.word_ids is not None and stream.word_ids[0][g[0]] is None for g in groups]
    merged = one.words(stream.name)
    return tuple(
        Word(visible(text), score, odd, decides(*group))
        for (text, score), odd, group in zip(merged, special, groups, strict=True)
    )


# -- between streams -------------------------------------------------------------------------


def _matrices(
    attribution: Attribution, parts: dict[str, _Part], index: int
) -> tuple[RelevanceMatrix, ...]:
    return tuple(
        RelevanceMatrix(
            asking,
            answering,
            parts[asking].asks,
            parts[answering].answers,
            sum_to_words(
                value[index].detach().cpu().double(),
                parts[asking].asking,
                parts[answering].answering,
            ),
            generated=parts[asking].says,
        )
        for (asking, answering), value in attribution.maps.items()
        if asking != answering or _texts(parts[asking].asks) != _texts(parts[asking].answers)
    )


def _largest(scores: Tensor) -> float:
    finite = scores[torch.isfinite(scores)].abs()
    return (float(finite.max()) if len(finite) else 0.0) or 1.0


def _share(score: float, span: float) -> float:
    return max(-1.0, min(1.0, score / span)) if math.isfinite(score) else 0.0


def describe_conservation(share: float | None, smooth: bool = False) -> str:
    """What a conservation of `share` means, as a sentence or two.

    `smooth` says that activations kept their gradient, which costs the sum, and can be changed.
    """
    said = _describe_share(share)
    off = share is not None and math.isfinite(share) and abs(share - 1) >= 0.005
    hint = ' Activations did that; activations="identity" keeps the sum.'
    return said + hint if smooth and off else said


def _describe_share(share: float | None) -> str:
    if share is None:
        return "No promise is made that the scores add up to the output."
    if not math.isfinite(share):
        return "The output is 0, so no share of it can be told."
    percent = f"{100 * share:.0f} %".replace("-", MINUS)
    if abs(share - 1) < 0.005:
        return "All of the output is accounted for."
    if 0 <= share < 1:
        return f"{percent} of the output is accounted for; the rest got lost on the way."
    if share > 1:
        return f"Scores and sinks add up to {percent} of the output, more than there is to explain."
    return f"Scores and sinks add up to {percent} of the output: their total points the other way."


def number(value: float, span: float | None = None) -> str:
    """A score as people read it: signed, with a true minus.

    Scores next to each other get as many places as three digits of `span` need, so that they
    line up; a number alone gets three digits of its own.
    """
    size = abs(span if span else value)
    if not math.isfinite(value) or not 1e-4 <= size < 1e6:
        text = f"{value:+.2e}" if value else "0"
    else:
        text = f"{value:+.{max(0, 2 - math.floor(math.log10(size)))}f}"
    return (text if text.strip("+-0.") else text.lstrip("+-")).replace("-", MINUS)
