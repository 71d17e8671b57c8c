"""Generated text as words: which row of the maps explains each, and how sure the model was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from whyformer.attribution import Stream
from whyformer.attribution.characters import hide_controls
from whyformer.render.relevance_matrix import Item, word_positions
from whyformer.render.signs import visible

UNSURE = 0.5  # words less probable than this are underlined


def is_unsure(probability: float | None) -> bool:
    """Return whether a word with this probability is underlined."""
    return probability is not None and probability < UNSURE


@dataclass(frozen=True)
class AnswerWord:
    """A generated word."""

    text: str
    special: bool = False
    row: int | None = None  # of the maps that explain the output; None if no row does
    probability: float | None = None  # of all of its tokens

    @property
    def unsure(self) -> bool:
        """Whether the model was not sure of it."""
        return is_unsure(self.probability)


@dataclass(frozen=True)
class Answer:
    """Generated words, and the rows of the maps that explain them."""

    words: tuple[AnswerWord, ...]
    rows: tuple[Item, ...]
    columns: list[list[int]]  # the map rows that are added up to each of `rows`
    parts: bool  # whether rows are spans of several words


def read_answer(stream: Stream) -> Answer:
    """Return the generated text of a stream of one sample, which must have `said`."""
    words, groups = _output_words(stream)
    chances = [_probability(stream, group) for group in groups]
    if stream.spans is None:
        numbered = zip(words, chances, strict=True)
        made = [AnswerWord(w.text, w.special, i, p) for i, (w, p) in enumerate(numbered)]
        return Answer(tuple(made), words, groups, parts=False)
    spans = stream.spans[0]
    made = [
        AnswerWord(w.text, w.special, _span_of(group[0], spans), p)
        for w, group, p in zip(words, groups, chances, strict=True)
    ]
    rows = [
        Item(" ".join(w.text for w in made if w.row == row) or visible(""))
        for row in range(len(spans))
    ]
    return Answer(tuple(made), tuple(rows), [[row] for row in range(len(spans))], parts=True)


def read_roles(stream: Stream, groups: Sequence[list[int]]) -> tuple[tuple[int, int, str], ...]:
    """Return the (start, end, role) of every chat message, in words; "" between messages."""
    if not stream.roles:
        return ()
    spans = stream.roles[0]
    named = [next((r for a, b, r in spans if a <= group[0] < b), "") for group in groups]
    starts = [next((a for a, b, _ in spans if a <= group[0] < b), -1) for group in groups]
    found: list[tuple[int, int, str]] = []
    for place, role in enumerate(named):
        if place and (role, starts[place]) == (named[place - 1], starts[place - 1]):
            found[-1] = (found[-1][0], place + 1, found[-1][2])
        else:
            found.append((place, place + 1, hide_controls(role)))
    return tuple(found)


def _span_of(place: int, spans: Sequence[tuple[int, int]]) -> int | None:
    return next((row for row, (start, end) in enumerate(spans) if start <= place < end), None)


def _probability(stream: Stream, group: Sequence[int]) -> float | None:
    if stream.probabilities is None:
        return None
    found = float(stream.probabilities[0, list(group)].double().prod())
    return found if math.isfinite(found) else None


def _output_words(stream: Stream) -> tuple[tuple[Item, ...], list[list[int]]]:
    """The generated words and their positions. The stream's word ids tell how tokens join."""
    assert stream.said is not None
    said, count = stream.said[0], len(stream.said[0])
    tokens = stream.tokens[0] if stream.tokens else ("",) * count
    ids = stream.word_ids[0] if stream.word_ids else (None,) * count
    explained = [i for i in range(count) if said[i]]
    # A decoder predicts its next input, so its output words are its input words, shifted by one.
    fits = (
        s for s in (0, 1) if all(said[i] == t for i in explained for t in tokens[i + s : i + s + 1])
    )
    shift = next(fits, count)
    moved = [ids[i + shift] if i + shift < count else None for i in range(count)]
    groups = [group for group in word_positions(moved) if all(said[i] for i in group)]
    texts = [visible("".join(said[i] for i in group)) for group in groups]
    added = [visible(t) for t, word in zip(tokens, ids, strict=True) if word is None]
    special = set(added if stream.word_ids else ())
    return tuple(Item(text, text in special) for text in texts), groups
