"""One sample made ready to be shown: words and patches with their scales, and plain sentences.

Every view reads this and adds only ink, so that all of them say the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whyformer.attribution import Attribution, Stream
from whyformer.render.numbers import MINUS
from whyformer.render.panels import (
    NOISE,
    ImagePanel,
    Panel,
    TextPanel,
    Word,
    largest_score,
    visible,
)
from whyformer.render.relevance_matrix import Item, RelevanceMatrix, sum_to_words, word_positions
from whyformer.render.subwords import as_subwords

# What tokens without a text are called, by their stream; anywhere else a number has to do.
_UNNAMED = {"image": "region ", "audio": "frame "}
_UNITS = {"image": "regions", "audio": "frames", "queries": "queries"}

ONE_SCALE = "All streams share one colour scale: their scores are parts of one sum."
OWN_SCALE = "Each stream has a colour scale of its own: compare within a stream, not across."


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
    span = largest_score(patches)
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
