"""The rows of an explained answer: each is a token, a sentence, a line, or the whole of it.

The explained value of a row is the sum of the scores of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from whyformer.errors import OptionError
from whyformer.targets.selection import Selection

EACH = ("token", "sentence", "line", "answer")

Spans = tuple[tuple[int, int], ...]  # (start, end) of some tokens; the end is exclusive

_ENDS = frozenset(".!?…")
_ENDS_WITHOUT_SPACE = frozenset("\u3002\uff01\uff1f")  # of Chinese and Japanese
_CLOSING = "\"'”\u2019»)]}」』*_"
# A point after these ends no sentence; neither does one after an initial.
_ABBREVIATIONS = frozenset(("mr", "mrs", "ms", "dr", "prof", "st", "vs", "fig", "e.g", "i.e", "cf"))


@dataclass(frozen=True)
class Generation:
    """The generated text of each sample, and its rows."""

    ids: tuple[tuple[int, ...], ...]  # per sample
    columns: tuple[int, ...]  # per sample: where the scores of its first generated token are
    tokens: tuple[tuple[str, ...], ...]  # the generated tokens as text, per sample
    texts: tuple[str, ...]  # the whole output, per sample
    prompt: int | None = None  # columns before the output, if prompt and output are one sequence
    rows: tuple[Spans, ...] = ()  # the tokens of each row, per sample
    each: str = "token"

    def divide(self, each: str, tokenizer: Any) -> Generation:
        """Return the generation with one row for each "token", "sentence", "line" or "answer"."""
        rows = tuple(split_answer(ids, tokenizer, each) for ids in self.ids)
        return replace(self, rows=rows, each=each)

    def select(self, row: int, samples: Sequence[int]) -> list[Selection]:
        """Return the scores that a row explains in each of some samples.

        A sample with fewer rows repeats its last one.
        """
        return [self._selection(sample, row) for sample in samples]

    def _selection(self, sample: int, row: int) -> Selection:
        start, end = self.rows[sample][min(row, len(self.rows[sample]) - 1)]
        ids, first = self.ids[sample], self.columns[sample]
        terms = tuple((1, (first + t, ids[t])) for t in range(start, end))
        label = " ".join(self.tokens[sample][start:end])
        return Selection(terms, ids[start] if end == start + 1 else -1, label)


def split_answer(ids: Sequence[int], tokenizer: Any, each: str) -> Spans:
    """Return the tokens of each row of an answer, in order and without gaps.

    White space belongs to the row before it, and so do special tokens after the text.
    """
    if each == "token":
        return tuple((t, t + 1) for t in range(len(ids)))
    if each == "answer":
        return ((0, len(ids)),)
    if tokenizer is None:
        raise OptionError(
            f"each={each!r} reads the text of the answer, and the model came without a tokenizer",
            argument="each",
            remedy="Pass processor=, or each='token' or each='answer'",
        )
    starts = [0]
    for t in range(1, len(ids)):
        before, after = _around(ids[starts[-1] :], t - starts[-1], tokenizer)
        if _divides(before, after, each):
            starts.append(t)
    return tuple(zip(starts, [*starts[1:], len(ids)], strict=True))


def check_each(each: Any) -> None:
    """Raise OptionError if `each` names no rows."""
    if each is not None and each not in EACH:
        raise OptionError(
            f"each={each!r} is unknown",
            argument="each",
            remedy=f"Use one of {', '.join(map(repr, EACH))}",
        )


def _around(ids: Sequence[int], place: int, tokenizer: Any) -> tuple[str, str]:
    """The text before a token, and what the token adds to it."""
    before, whole = (
        str(tokenizer.decode(list(ids[:end]), skip_special_tokens=True))
        for end in (place, place + 1)
    )
    return before, whole[len(before) :]


def _divides(before: str, after: str, each: str) -> bool:
    """Whether a sentence or a line ends between two pieces of text."""
    text, rest = before.rstrip(), after.lstrip()
    if not text or not rest:
        return False
    gap = before[len(text) :] + after[: len(after) - len(rest)]
    if "\n" in gap or each == "line":
        return "\n" in gap
    end = text.rstrip(_CLOSING) or text
    if end[-1] in _ENDS_WITHOUT_SPACE:
        return rest[0] not in _CLOSING
    if not gap or end[-1] not in _ENDS:
        return False
    if not end.endswith("."):
        return True
    words = end[:-1].split() or [""]
    last = words[-1].lstrip("(\"'")
    is_initial = len(last) == 1 and last.isupper()
    is_item = len(words) == 1 and last.isdigit()  # "1. First"
    return not (is_initial or is_item or last.casefold() in _ABBREVIATIONS)
