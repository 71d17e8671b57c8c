"""The view model: what every view shows of a sample, with colour scales and notes.

Views read this and add only layout, so that all of them show the same content.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from whyformer.attribution import Attribution, Stream
from whyformer.attribution.conservation import describe_conservation
from whyformer.render.answer import read_answer, read_roles
from whyformer.render.numbers import chance
from whyformer.render.panels import (
    NOISE,
    ImagePanel,
    Panel,
    TextPanel,
    Word,
    largest_score,
)
from whyformer.render.relevance_matrix import Item, RelevanceMatrix, sum_to_words, word_positions
from whyformer.render.signs import visible
from whyformer.render.subwords import as_subwords

# Names of tokens without text, by stream; tokens of other streams are numbered.
_UNNAMED = {"image": "region ", "audio": "frame "}
_UNITS = {"image": "regions", "audio": "frames", "queries": "queries"}

UNCHECKED = "unchecked"
ONE_SCALE = "All streams share one colour scale: their scores are parts of one sum."
OWN_SCALE = "Each stream has its own colour scale: compare within a stream, not across streams."


@dataclass(frozen=True)
class SampleContent:
    """Everything that a view shows of one sample."""

    label: str
    output: float
    chance: str  # the probability of the label in per cent, or ""
    method: str
    model: str
    options: str  # key=value, ...
    notes: tuple[str, ...]  # notes about the input, such as truncation
    verdict: str  # of `Attribution.trust`: "sound", "sound with notes", "doubtful", "unchecked"
    reasons: str  # for the verdict, in one line; what the scores sum to, if nothing is wrong
    share: float | None  # scores and sinks over the output, if the method conserves
    stream_totals: tuple[tuple[str, float], ...]  # the sum of each stream's scores
    sinks: tuple[tuple[str, float], ...]
    panels: tuple[Panel, ...]
    scales: str = ""  # how streams compare by colour; "" if there is only one
    matrices: tuple[
        RelevanceMatrix, ...
    ] = ()  # between streams, and from an output to what preceded it

    @property
    def head(self) -> str:
        """The verdict as the start of the line of trust; "" if nothing was checked."""
        return "" if self.verdict == UNCHECKED else f"Trust: {self.verdict}."

    @property
    def trust(self) -> str:
        """How far to trust the scores, in one line."""
        return f"{self.head} {self.reasons}".strip()

    @property
    def totals(self) -> tuple[tuple[str, float], ...]:
        """(name, sum) of tokens or streams and of sinks; empty if there is only one number."""
        several = self.scales == ONE_SCALE
        total = ("tokens", sum(value for _, value in self.stream_totals))
        return (*(self.stream_totals if several else (total,)), *self.sinks) * bool(
            self.sinks or several
        )

    @property
    def answer(self) -> TextPanel | None:
        """The panel of the generated text, or None if nothing was generated."""
        found = (p for p in self.panels if isinstance(p, TextPanel) and p.answer)
        return next(found, None)

    @property
    def generated(self) -> list[RelevanceMatrix]:
        """The matrices of output words by input words."""
        texts = {panel.name for panel in self.panels if isinstance(panel, TextPanel)}
        return [m for m in self.matrices if m.generated and m.answering in texts]


def read_samples(attribution: Attribution) -> list[SampleContent]:
    """Return the content of every sample, in order. The main stream comes first in each."""
    return [_read_one(attribution, i) for i in range(len(attribution))]


def _read_one(attribution: Attribution, index: int) -> SampleContent:
    one = attribution[index]
    order = sorted(one.streams, key=lambda name: name != one.main)
    parts = {name: _part(attribution, one, name, index) for name in order}
    smooth = one.options.get("activations") == "gradient"
    share = None if one.conservation is None else float(one.conservation[0])
    panels = tuple(part.panel for part in parts.values())
    together = one.conservation is not None
    return SampleContent(
        label=_label(one),
        output=float(one.output[0]),
        chance=chance(None if one.probability is None else float(one.probability[0])),
        method=visible(one.method),
        model=visible(str(one.provenance.get("model") or "")),
        options=visible(", ".join(f"{k}={v}" for k, v in one.options.items())) * bool(one.options),
        notes=tuple(visible(str(note)) for note in one.provenance.get("notes") or ()),
        verdict=one.trust.verdict,
        reasons=visible(one.trust.summary or describe_conservation(share, smooth)),
        share=share,
        stream_totals=tuple(
            (visible(name), float(one.streams[name].scores.double().sum())) for name in order
        ),
        sinks=tuple(
            (visible(name).replace("_", " "), float(sink[0])) for name, sink in one.sinks.items()
        ),
        panels=_share_scale(panels) if together and len(panels) > 1 else panels,
        scales=(ONE_SCALE if together else OWN_SCALE) * (len(panels) > 1),
        matrices=_matrices(attribution, parts, index),
    )


def _label(one: Attribution) -> str:
    """What is explained: the name of a class, or text that a model writes, in quotes."""
    label = one.labels[0]
    written = "generated" in one.streams or label[:1].isspace()
    shown = visible(label.strip() or label)
    return (
        f"\N{LEFT DOUBLE QUOTATION MARK}{shown}\N{RIGHT DOUBLE QUOTATION MARK}"
        if written
        else shown
    )


def _share_scale(panels: tuple[Panel, ...]) -> tuple[Panel, ...]:
    """The panels on one scale, set by the strongest score of all."""
    # A panel without any score has a placeholder span, which must not set the scale.
    span = max((p.span for p in panels if not p.silent), default=1.0)
    signed = any(panel.signed for panel in panels)
    full_at = "the strongest token of all streams"
    return tuple(replace(p, span=span, signed=signed, full_at=full_at) for p in panels)


# -- one stream ------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A stream as a panel, and the batch columns of its items."""

    panel: Panel
    answers: tuple[Item, ...]
    answering: list[list[int]]
    asks: tuple[Item, ...]
    asking: list[list[int]]
    generated: bool  # whether `asks` are generated words


def _part(attribution: Attribution, one: Attribution, name: str, index: int) -> _Part:
    whole, stream = attribution.streams[name], one.streams[name]
    if whole.grid is not None and whole.grid[0] * whole.grid[1] == whole.scores.shape[1]:
        # Padding patches stay: without them, the others would not fit the grid.
        image = _image(whole, index)
        patches = tuple(Item(row.name) for row in image.rows)
        places = [[i] for i in range(len(patches))]
        return _Part(image, patches, places, patches, places, generated=False)
    kept = whole.mask[index].nonzero().flatten().tolist()
    count = len(kept)
    answering = word_positions(
        stream.word_ids[0] if stream.word_ids and stream.tokens else [None] * count
    )
    roles = read_roles(stream, answering)
    words = _with_template_words(_words(one, stream), roles)
    answers = tuple(Item(word.text, word.special) for word in words)
    panel, apart = _text(stream.name, words), as_subwords(one)
    panel = replace(
        panel,
        subwords=_words(apart, apart.streams[name]) if len(words) < count else (),
        roles=roles,
    )
    answering = [[kept[i] for i in group] for group in answering]
    if not stream.said:
        generated = name == "generated"
        return _Part(panel, answers, answering, answers, answering, generated=generated)
    answer = read_answer(stream)
    twice = _texts(answer.rows) == _texts(answers)
    if twice:
        both = zip(panel.words, answer.words, strict=True)
        panel = replace(panel, words=tuple(replace(w, probability=a.probability) for w, a in both))
    panel = replace(
        panel,
        output_words=() if twice else answer.rows,
        answer=answer.words,
        in_parts=answer.parts,
    )
    asking = [[i if answer.parts else kept[i] for i in group] for group in answer.columns]
    return _Part(panel, answers, answering, answer.rows, asking, generated=True)


def _with_template_words(
    words: tuple[Word, ...], roles: Sequence[tuple[int, int, str]]
) -> tuple[Word, ...]:
    """The words; those between the messages of a chat are the template's, so they are special."""
    template = {i for start, end, role in roles if not role for i in range(start, end)}
    return tuple(replace(w, special=True) if i in template else w for i, w in enumerate(words))


def _texts(items: Sequence[Item]) -> list[str]:
    return [item.text for item in items]


def _text(name: str, words: tuple[Word, ...]) -> TextPanel:
    # The strongest word of the text sets the scale. [CLS], [SEP] and the deciding token often have
    # many times its score: scaled to them, all words would look the same.
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
        # If scores sum to the output, the deciding token counts like any other.
        read = stream.deciding if one.conservation is None else None
        return read is not None and any(bool(read[0, column]) for column in columns)

    if stream.tokens is None:
        # Raw embeddings have no words: positions from 0 stand in.
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
            generated=parts[asking].generated,
        )
        for (asking, answering), value in attribution.maps.items()
        if asking != answering
        or parts[asking].generated
        or _texts(parts[asking].asks) != _texts(parts[asking].answers)
    )
