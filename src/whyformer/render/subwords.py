"""Attributions with one word per token, to show the tokens of each word."""

from __future__ import annotations

from dataclasses import replace

from whyformer.attribution import Attribution, Stream

CONTINUES = "·"  # before a token that continues a word


def as_subwords(attribution: Attribution) -> Attribution:
    """Return the attribution with every token as a word. Special tokens stay special."""
    streams = {name: _split_words(stream) for name, stream in attribution.streams.items()}
    return replace(attribution, streams=streams)


def _split_words(stream: Stream) -> Stream:
    if stream.word_ids is None:
        return stream
    apart = tuple(
        tuple(None if word is None else place for place, word in enumerate(words))
        for words in stream.word_ids
    )
    # Generated tokens are matched with `said`, so they stay unmarked.
    tokens = stream.tokens if stream.said else _mark_subwords(stream)
    return replace(stream, word_ids=apart, tokens=tokens)


def _mark_subwords(stream: Stream) -> tuple[tuple[str, ...], ...] | None:
    """The tokens, with a dot before those that continue a word."""
    if stream.tokens is None or stream.word_ids is None:
        return stream.tokens
    return tuple(
        tuple(
            CONTINUES + token if word is not None and before == word else token
            for token, word, before in zip(tokens, words, (None, *words), strict=False)
        )
        for tokens, words in zip(stream.tokens, stream.word_ids, strict=True)
    )
