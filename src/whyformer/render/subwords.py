"""Sub-words shown one by one: what a word was cut into, each with its own score."""

from __future__ import annotations

from dataclasses import replace

from whyformer.attribution import Attribution, Stream

GOES_ON = "·"  # before a token that goes on with a word


def as_subwords(attribution: Attribution) -> Attribution:
    """The same attribution with every token a word of its own; special tokens stay special."""
    streams = {name: _apart(stream) for name, stream in attribution.streams.items()}
    return replace(attribution, streams=streams)


def _apart(stream: Stream) -> Stream:
    if stream.word_ids is None:
        return stream
    apart = tuple(
        tuple(None if word is None else place for place, word in enumerate(words))
        for words in stream.word_ids
    )
    # An output is matched with what was said, token by token: it stays as it is.
    tokens = stream.tokens if stream.said else _marked(stream)
    return replace(stream, word_ids=apart, tokens=tokens)


def _marked(stream: Stream) -> tuple[tuple[str, ...], ...] | None:
    """The tokens, with a sign before those that go on with a word."""
    if stream.tokens is None or stream.word_ids is None:
        return stream.tokens
    return tuple(
        tuple(
            GOES_ON + token if word is not None and before == word else token
            for token, word, before in zip(tokens, words, (None, *words), strict=False)
        )
        for tokens, words in zip(stream.tokens, stream.word_ids, strict=True)
    )
