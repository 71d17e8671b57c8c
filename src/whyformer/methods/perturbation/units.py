"""Units of an input that are removed together: tokens, words, sentences, patches, windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from whyformer.inputs.batch import Batch

Unit = Literal["token", "word", "sentence", "patch"]
Division = Unit | Literal["longest"]  # sentences, else words, else tokens: what there is two of
Columns = tuple[int, ...]  # places of tokens in their stream, in order

_ENDS = frozenset(".!?…\u3002\uff01\uff1f")  # the last three are those of Chinese and Japanese
_CLOSING = frozenset("\"'”\u2019»)]}」』")


def words(stream: Batch, sample: int, columns: Sequence[int]) -> list[Columns]:
    """Return the columns of each word; special tokens, which belong to no word, are alone."""
    assert stream.word_ids is not None
    ids = stream.word_ids[sample]
    groups: list[list[int]] = []
    for column in columns:
        last = groups[-1][-1] if groups else None
        if last is not None and last + 1 == column and ids[last] == ids[column] is not None:
            groups[-1].append(column)
        else:
            groups.append([column])
    return [tuple(group) for group in groups]


def sentences(stream: Batch, sample: int, columns: Sequence[int]) -> list[Columns]:
    """Return the columns of each sentence.

    A sentence ends after '.', '!' or '?' and the signs, quotes and brackets that follow, and
    before a token that is not in `columns`, such as the separator of two texts. A point between
    digits ends nothing.
    """
    assert stream.tokens is not None
    tokens = stream.tokens[sample]
    groups: list[list[int]] = []
    ended = False
    for column in columns:
        closes = set(tokens[column]) <= _ENDS | _CLOSING
        if not groups or groups[-1][-1] + 1 != column or (ended and not closes):
            groups.append([])
            ended = False
        groups[-1].append(column)
        ended = (ended and closes) or _ends_sentence(tokens, column)
    return [tuple(group) for group in groups]


def _ends_sentence(tokens: Sequence[str], column: int) -> bool:
    text = tokens[column].strip().rstrip("".join(_CLOSING)) or tokens[column].strip()
    if not text or text[-1] not in _ENDS:
        return False
    before = tokens[column - 1][-1:] if column else ""
    after = tokens[column + 1][:1] if column + 1 < len(tokens) else ""
    return not (text == "." and before.isdigit() and after.isdigit())


def windows(grid: tuple[int, int], size: int) -> list[Columns]:
    """Return the patches of every window of size x size patches, at a stride of one patch."""
    rows, columns = grid
    return [
        tuple(
            (top + down) * columns + left + right for down in range(size) for right in range(size)
        )
        for top in range(rows - size + 1)
        for left in range(columns - size + 1)
    ]
