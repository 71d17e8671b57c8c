"""The words of an explained text with their relevance, and the kind of every word.

A word is a run of letters and digits with apostrophes and hyphens inside. It can have
several tokens.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from whyformer.audit.explainer import ExplainedText
from whyformer.audit.token_spans import text_parts, tokens_within

CONTENT, FUNCTION, PUNCTUATION, SPECIAL = (
    "content words",
    "function words",
    "punctuation",
    "special tokens",
)
KINDS = (CONTENT, FUNCTION, PUNCTUATION, SPECIAL)

APOSTROPHE = "\N{RIGHT SINGLE QUOTATION MARK}"

_WORD = re.compile(rf"[^\W_]+(?:['{APOSTROPHE}\-][^\W_]+)*")


@dataclass(frozen=True)
class ScoredWord:
    """One word of the text, its tokens, and the sum of their relevance."""

    text: str  # in lower case
    part: int
    start: int
    stop: int
    kind: str
    tokens: tuple[int, ...]
    relevance: float
    share: float


@dataclass(frozen=True)
class Hit:
    """The relevance of a term or a word in one sample."""

    sample: int
    relevance: float  # sum over its tokens
    share: float  # of all |relevance|
    per_word: float  # the share divided by its number of words
    others: float | None  # mean share of the sample's other words; None if it has no others
    top: bool  # whether the word with the largest share belongs to it
    chance: float  # probability of being the top word if all words had the same share


class ScoredText:
    """An explained text, split into words."""

    def __init__(self, found: ExplainedText, function_words: Collection[str]) -> None:
        self.parts = text_parts(found.text)
        self.spans = found.spans
        self.scores, self.shares = found.scores, found.shares
        self._function_words = function_words

    @cached_property
    def words(self) -> tuple[ScoredWord, ...]:
        """The words that the model saw, in order; a token belongs to the first word it overlaps."""
        taken: set[int] = set()
        words = []
        for part, text in enumerate(self.parts):
            for match in _WORD.finditer(text):
                overlapping = tokens_within(self.spans, part, *match.span())
                tokens = tuple(i for i in overlapping if i not in taken)
                taken.update(tokens)
                if tokens:
                    words.append(self._word(match[0].casefold(), part, match.span(), tokens))
        return tuple(words)

    def _word(
        self, text: str, part: int, span: tuple[int, int], tokens: tuple[int, ...]
    ) -> ScoredWord:
        kind = FUNCTION if text.replace(APOSTROPHE, "'") in self._function_words else CONTENT
        relevance, share = (sum(values[i] for i in tokens) for values in (self.scores, self.shares))
        return ScoredWord(text, part, *span, kind, tokens, relevance, share)

    @cached_property
    def top(self) -> ScoredWord | None:
        """The word with the largest share."""
        return max(self.words, key=lambda word: word.share, default=None)

    @cached_property
    def kinds(self) -> dict[str, tuple[float, float]]:
        """(share of |relevance|, share of tokens) of each kind; each sums to 1 over the kinds.

        If all relevance is 0, all shares of it are 0.
        """
        kind_of = {i: word.kind for word in self.words for i in word.tokens}
        totals = {kind: [0.0, 0.0] for kind in KINDS}
        for index, (span, share) in enumerate(zip(self.spans, self.shares, strict=True)):
            kind = SPECIAL if span is None else kind_of.get(index, PUNCTUATION)
            totals[kind][0] += share
            totals[kind][1] += 1 / len(self.spans)
        return {kind: (share, even) for kind, (share, even) in totals.items()}

    def hit(self, sample: int, words: Sequence[ScoredWord], tokens: Collection[int]) -> Hit:
        """Return the relevance of these words, whose tokens are `tokens`."""
        chosen = {id(word) for word in words}
        others = [word.share for word in self.words if id(word) not in chosen]
        share = sum(self.shares[i] for i in tokens)
        return Hit(
            sample,
            sum(self.scores[i] for i in tokens),
            share,
            share / max(1, len(words)),
            sum(others) / len(others) if others else None,
            self.top is not None and id(self.top) in chosen,
            len(words) / max(1, len(self.words)),
        )

    def find(self, sample: int, term: re.Pattern[str]) -> Hit | None:
        """Return the relevance of all occurrences of a term; None if it does not occur."""
        tokens: set[int] = set()
        places = []
        for part, text in enumerate(self.parts):
            for match in term.finditer(text):
                tokens.update(tokens_within(self.spans, part, *match.span()))
                places.append((part, *match.span()))
        if not tokens:
            return None
        words = [
            word
            for word in self.words
            if any(p == word.part and a < word.stop and word.start < b for p, a, b in places)
        ]
        return self.hit(sample, words, tokens)

    def every_word(self, sample: int) -> dict[str, Hit]:
        """Return the relevance of each word, summed over its occurrences."""
        same: dict[str, list[ScoredWord]] = {}
        for word in self.words:
            same.setdefault(word.text, []).append(word)
        return {
            text: self.hit(sample, words, {i for word in words for i in word.tokens})
            for text, words in same.items()
        }


def term_pattern(term: str) -> re.Pattern[str]:
    """Return a pattern for the term: whole words, any case, any white space between words."""
    words = r"\s+".join(re.escape(word) for word in term.split())
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)
