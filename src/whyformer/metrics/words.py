"""Scores of tokens pooled into scores of words."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from whyformer.attribution import Stream
from whyformer.errors import InputError

Pool = Literal["max", "sum"]


def word_index(stream: Stream) -> Tensor:
    """The word of each token, (batch, tokens); -1 for special tokens and padding.

    Words of the second text of a pair are numbered after those of the first.
    """
    if stream.word_ids is None:
        raise InputError(
            f"stream '{stream.name}' has no words",
            argument="options",
            remedy="Use level='token'",
        )
    numbers = [_continued_numbers(sample) for sample in stream.word_ids]
    index = torch.tensor(numbers, dtype=torch.long, device=stream.mask.device)
    if index.shape != stream.mask.shape:
        raise InputError(
            f"word_ids are {tuple(index.shape)}; expected one per token,"
            f" {tuple(stream.mask.shape)}",
            argument="attribution",
        )
    return index.masked_fill(~stream.mask, -1)


def word_scores(
    scores: Tensor, index: Tensor, words: int, pool: Pool = "max"
) -> tuple[Tensor, Tensor]:
    """Scores of words, and which words have a token, (batch, words) both."""
    # The extra column collects the tokens outside any word.
    column = index.where(index >= 0, words)
    empty = scores.new_zeros(len(scores), words + 1)
    how = "amax" if pool == "max" else "sum"
    pooled = empty.scatter_reduce(1, column, scores, how, include_self=False)
    has = torch.zeros_like(pooled, dtype=torch.bool).scatter_(1, column, True)
    return pooled[:, :words], has[:, :words]


def _continued_numbers(words: tuple[int | None, ...]) -> list[int]:
    """Word numbers that keep rising where a second text starts again from 0; -1 for None."""
    found, offset, last = [], 0, -1
    for word in words:
        if word is None:
            found.append(-1)
            continue
        if offset + word < last:
            offset = last + 1
        last = offset + word
        found.append(last)
    return found
