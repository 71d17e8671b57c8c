"""Find a text among the tokens of a sample: the columns of its first and last token."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.inputs.words import PLAIN, WORDPIECE, exact_pieces, scheme_of
from whyformer.targets.labels import NAMES_SHOWN


@dataclass(frozen=True)
class Match:
    """The columns of a text's first and last token."""

    first: int
    last: int


def find_text(
    text: str,
    batch: Batch,
    sample: int,
    occurrence: int | None = None,
    preferred: Tensor | None = None,
) -> Match:
    """Return where the text is among one sample's tokens.

    Args:
        text: Whole tokens; a space in front of the first one may be left out. Whole words are
            preferred: "art" is not found in "party" if the sample has the word "art".
        batch: The stream to search.
        sample: The index of the sample.
        occurrence: Which one, from 0, if there are several; negative numbers count from the end.
        preferred: (tokens,) True at columns that are searched first.

    Raises:
        TargetError: The text is not there, or several times and `occurrence` is None.
    """
    ids = batch.arguments.get(batch.carrier)
    if batch.tokenizer is None or not isinstance(ids, Tensor) or ids.is_floating_point():
        raise TargetError(
            f"the text {text!r} is to be found among the tokens and the model came without a"
            " tokenizer",
            argument="processor",
            remedy="Pass processor=, or the position as an integer",
        )
    found = _find_all(text, batch, ids[sample].tolist(), sample)
    if preferred is not None:
        inside = [one for one in found if bool(preferred[one.first : one.last + 1].all())]
        found = inside or found
    if not found:
        raise TargetError(
            f"sample {sample} has no {text!r}; it has {_words(batch, sample)}",
            argument="target",
            remedy="Pass a text that is there, made of whole tokens, or a position",
        )
    if occurrence is not None and not -len(found) <= occurrence < len(found):
        raise TargetError(
            f"there is no occurrence {occurrence} of {text!r} in sample {sample}, which has it"
            f" {len(found)} times",
            argument="target",
            remedy=f"Pass occurrence=0 to {len(found) - 1}",
        )
    if occurrence is None and len(found) > 1:
        places = ", ".join(str(_position(batch, sample, one.first)) for one in found[:NAMES_SHOWN])
        more = ", ..." if len(found) > NAMES_SHOWN else ""
        raise TargetError(
            f"sample {sample} has {text!r} {len(found)} times, at positions {places}{more}",
            argument="target",
            remedy=f"Pass occurrence=0 to {len(found) - 1}, or one of these positions",
        )
    return found[occurrence or 0]


def _find_all(text: str, batch: Batch, ids: list[int], sample: int) -> list[Match]:
    """All places of the text: of whole words if there are any, in the same case if there are."""
    assert batch.mask is not None
    mask = batch.mask[sample].tolist()
    pieces = exact_pieces(batch.tokenizer, ids, mask)
    wanted = text
    if scheme_of(batch.tokenizer) in (WORDPIECE, PLAIN):  # their tokens do not hold spaces
        pieces = ["".join(piece.split()) for piece in pieces]
        wanted = "".join(text.split())
    if not wanted.strip():
        return []
    found = list(_aligned(wanted, pieces))
    if not found:
        found = list(_aligned(wanted.casefold(), [piece.casefold() for piece in pieces]))
    whole = [one for one in found if _is_whole(one, batch.word_ids and batch.word_ids[sample])]
    return whole or found


def _aligned(text: str, pieces: list[str]) -> Iterator[Match]:
    """Places where the text is made of whole pieces, without a space in front of the first one."""
    for first, piece in enumerate(pieces):
        starts = {piece, piece.lstrip()} - {""}
        for start in starts:
            joined, last = start, first
            while len(joined) < len(text) and last + 1 < len(pieces) and text.startswith(joined):
                last += 1
                joined += pieces[last]
            if joined == text:
                # Later bytes of a last character are in pieces without text.
                while last + 1 < len(pieces) and pieces[last + 1] == "":
                    last += 1
                yield Match(first, last)
                break


def _is_whole(match: Match, words: Any) -> bool:
    """Whether the match begins and ends where words do."""
    if not words:
        return True
    before = words[match.first - 1] if match.first else None
    after = words[match.last + 1] if match.last + 1 < len(words) else None
    begins = words[match.first] is None or words[match.first] != before
    return begins and (words[match.last] is None or words[match.last] != after)


def _words(batch: Batch, sample: int) -> str:
    """The first words of a sample, in quotes."""
    assert batch.mask is not None
    assert batch.tokens is not None
    joined: dict[Any, str] = {}
    rows = zip(batch.tokens[sample], batch.mask[sample].tolist(), strict=True)
    words = batch.word_ids[sample] if batch.word_ids else range(batch.mask.shape[1])
    for (piece, real), word in zip(rows, words, strict=True):
        if real and word is not None:
            joined[word] = joined.get(word, "") + piece
    shown = [repr(word) for word in joined.values()]
    more = f", ... {len(shown)} words in all" if len(shown) > 2 * NAMES_SHOWN else ""
    return ", ".join(shown[: 2 * NAMES_SHOWN]) + more


def _position(batch: Batch, sample: int, column: int) -> int:
    """The user's position of one of the model's columns."""
    return column if batch.layout is None else batch.layout.position(sample, column)
