"""Where tokens stand in their text, and which of them a stretch of the text covers."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from whyformer.attribution import Stream
from whyformer.inputs.detect import Text
from whyformer.inputs.text import tokenizer_scope

Span = tuple[int, int, int]  # which text of a pair, its first character, one past its last


def parts_of(text: Text) -> tuple[str, ...]:
    """A text as one part, a pair of texts as two."""
    return (text,) if isinstance(text, str) else tuple(text)


def token_spans(
    text: Text, stream: Stream, tokenizer: Any, limit: int | None
) -> tuple[Span | None, ...]:
    """Where each token of one sample stands; None for special tokens.

    A fast tokenizer says so itself. For others, and where it cuts the text in another way than
    the explanation did, the pieces are looked for in the text, one after the other.
    """
    assert stream.tokens is not None
    pieces = stream.tokens[0]
    if getattr(tokenizer, "is_fast", False):
        spans = _told(text, tokenizer, limit)
        if len(spans) == len(pieces):
            return spans
    inside = [True] * len(pieces)
    if stream.word_ids is not None:
        inside = [word is not None for word in stream.word_ids[0]]
    return _found(parts_of(text), pieces, inside)


def covered(spans: Sequence[Span | None], part: int, start: int, stop: int) -> list[int]:
    """The tokens that share a character with this stretch of a part of the text."""
    return [
        index
        for index, span in enumerate(spans)
        if span is not None and span[0] == part and span[1] < stop and start < span[2]
    ]


def _told(text: Text, tokenizer: Any, limit: int | None) -> tuple[Span | None, ...]:
    parts = parts_of(text)
    cut: dict[str, Any] = {} if limit is None else {"max_length": limit}
    with tokenizer_scope(tokenizer):
        encoding = tokenizer(
            *parts, truncation=bool(cut), padding=False, return_offsets_mapping=True, **cut
        )
    spans: list[Span | None] = []
    told = zip(encoding.sequence_ids(0), encoding["offset_mapping"], strict=True)
    for part, (start, stop) in told:
        if part is None:
            spans.append(None)
            continue
        # Some tokenizers count the space before a word as the word's.
        while start < stop and parts[part][start].isspace():
            start += 1
        spans.append((part, start, stop))
    return tuple(spans)


def _found(
    parts: Sequence[str], pieces: Sequence[str], inside: Sequence[bool]
) -> tuple[Span | None, ...]:
    """Each piece at its next place in the text; one that is nowhere, such as an unknown word,
    reaches to the next that is."""
    plain = [_plain(part) for part in parts]
    spans: list[Span | None] = []
    part = at = 0
    lost: list[int] = []  # pieces that wait for the next one that is found
    for index, (piece, within) in enumerate(zip(pieces, inside, strict=True)):
        if not within:
            # The special token between the texts of a pair.
            if part + 1 < len(parts) and any(spans):
                part, at = part + 1, 0
            spans.append(None)
            continue
        wanted = _plain(piece)[0]
        start = plain[part][0].find(wanted, at) if wanted else -1
        if start < 0:
            spans.append((part, at, at))
            lost.append(index)
            continue
        for gap in lost:
            spans[gap] = (part, at, start)
        lost, at = [], start + len(wanted)
        spans.append((part, start, at))
    for gap in lost:
        spans[gap] = (part, at, len(plain[part][0]))
    return tuple(_given(span, parts, plain) for span in spans)


def _plain(text: str) -> tuple[str, list[int]]:
    """The text in lower case and without accents, and which character each of its is from."""
    found = [
        (sign, index)
        for index, character in enumerate(text)
        for sign in unicodedata.normalize("NFKD", character.casefold())
        if not unicodedata.combining(sign)
    ]
    return "".join(sign for sign, _ in found), [index for _, index in found]


def _given(
    span: Span | None, parts: Sequence[str], plain: Sequence[tuple[str, list[int]]]
) -> Span | None:
    """A span of the plain text as one of the text as it was given, without blanks around it."""
    if span is None:
        return None
    part, start, stop = span
    places = [*plain[part][1], len(parts[part])]
    start, stop = places[start], (places[stop - 1] + 1 if stop > start else places[start])
    while start < stop and parts[part][start].isspace():
        start += 1
    while start < stop and parts[part][stop - 1].isspace():
        stop -= 1
    return part, start, stop
