"""The place of every token in its text, and the tokens within a part of the text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from whyformer.attribution import Stream
from whyformer.inputs.detect import Text
from whyformer.inputs.tokenizer_scope import tokenizer_scope

Span = tuple[int, int, int]  # text of the pair (0 or 1), first character, one past the last


def text_parts(text: Text) -> tuple[str, ...]:
    """Return the parts of an input: one for a text, two for a pair of texts."""
    return (text,) if isinstance(text, str) else tuple(text)


def token_spans(
    text: Text, stream: Stream, tokenizer: Any, limit: int | None
) -> tuple[Span | None, ...]:
    """Return the span of each token of one sample; None for special tokens.

    A fast tokenizer reports the spans. For a slow one, and if the tokens differ from those of the
    explanation, the tokens are searched for in the text, one after the other.
    """
    assert stream.tokens is not None
    pieces = stream.tokens[0]
    if getattr(tokenizer, "is_fast", False):
        spans = _spans_from_tokenizer(text, tokenizer, limit)
        if len(spans) == len(pieces):
            return spans
    inside = [True] * len(pieces)
    if stream.word_ids is not None:
        inside = [word is not None for word in stream.word_ids[0]]
    return _spans_by_search(text_parts(text), pieces, inside)


def tokens_within(spans: Sequence[Span | None], part: int, start: int, stop: int) -> list[int]:
    """Return the tokens that overlap the characters start to stop of one part of the text."""
    return [
        index
        for index, span in enumerate(spans)
        if span is not None and span[0] == part and span[1] < stop and start < span[2]
    ]


def _spans_from_tokenizer(text: Text, tokenizer: Any, limit: int | None) -> tuple[Span | None, ...]:
    parts = text_parts(text)
    cut: dict[str, Any] = {} if limit is None else {"max_length": limit}
    with tokenizer_scope(tokenizer):
        encoding = tokenizer(
            *parts, truncation=bool(cut), padding=False, return_offsets_mapping=True, **cut
        )
    spans: list[Span | None] = []
    offsets = zip(encoding.sequence_ids(0), encoding["offset_mapping"], strict=True)
    for part, (start, stop) in offsets:
        if part is None:
            spans.append(None)
            continue
        # Some tokenizers include the space before a word.
        while start < stop and parts[part][start].isspace():
            start += 1
        spans.append((part, start, stop))
    return tuple(spans)


def _spans_by_search(
    parts: Sequence[str], pieces: Sequence[str], inside: Sequence[bool]
) -> tuple[Span | None, ...]:
    """Every token at its next occurrence in the text.

    A token that does not occur, such as an unknown word, spans the gap up to the next one.
    """
    plain = [_plain(part) for part in parts]
    spans: list[Span | None] = []
    part = at = 0
    lost: list[int] = []  # tokens not found since the last one that was
    for index, (piece, within) in enumerate(zip(pieces, inside, strict=True)):
        if not within:
            # The special token between the texts of a pair.
            if part + 1 < len(parts) and any(spans):
                part, at = part + 1, 0
            spans.append(None)
            continue
        letters = _plain(piece)[0]
        start = plain[part][0].find(letters, at) if letters else -1
        if start < 0:
            spans.append((part, at, at))
            lost.append(index)
            continue
        for gap in lost:
            spans[gap] = (part, at, start)
        lost, at = [], start + len(letters)
        spans.append((part, start, at))
    for gap in lost:
        spans[gap] = (part, at, len(plain[part][0]))
    return tuple(_original_span(span, parts, plain) for span in spans)


def _plain(text: str) -> tuple[str, list[int]]:
    """The text in lower case without accents, and the original index of each character."""
    found = [
        (sign, index)
        for index, character in enumerate(text)
        for sign in unicodedata.normalize("NFKD", character.casefold())
        if not unicodedata.combining(sign)
    ]
    return "".join(sign for sign, _ in found), [index for _, index in found]


def _original_span(
    span: Span | None, parts: Sequence[str], plain: Sequence[tuple[str, list[int]]]
) -> Span | None:
    """A span of the plain text as a span of the original text, without white space around it."""
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
