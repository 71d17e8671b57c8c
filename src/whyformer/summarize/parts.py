"""The parts of explanations that a summary counts: words, sentences or positions of patches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from whyformer.attribution import Attribution
from whyformer.audit.explainer import ExplainedText
from whyformer.audit.sample_explainer import SampleExplainer
from whyformer.audit.scored_words import ScoredText
from whyformer.audit.token_spans import tokens_within
from whyformer.datasets import Sample

Unit = Literal["words", "sentences", "positions"]
UNITS: tuple[Unit, ...] = ("words", "sentences", "positions")

_SENTENCE = re.compile(r"\S.*?(?:[.!?…。]+[\"'”»)\]]*(?=\s|$)|\n|$)", re.DOTALL)


@dataclass(frozen=True)
class ExplainedSample:
    """One explanation, reduced to its parts.

    Args:
        sample: The sample's id.
        label: The class that was explained.
        output: The explained value.
        shares: By part, its relevance as a share of the sum of |relevance|; signed.
        terms: The share of |relevance| on the listed terms; None if there is no list.
        conservation: Scores and sinks as a share of the output; None without a promise.
    """

    sample: str
    label: str
    output: float
    shares: Mapping[str, float]
    terms: float | None = None
    conservation: float | None = None


def word_shares(found: ExplainedText) -> dict[str, float]:
    """Return the signed share of each word, over all of its places in the text."""
    scored = ScoredText(found, ())
    total = _total(found.scores)
    return {word: hit.relevance / total for word, hit in scored.every_word(0).items()}


def sentence_shares(found: ExplainedText) -> dict[str, float]:
    """Return the signed share of each sentence."""
    scored = ScoredText(found, ())
    total = _total(found.scores)
    shares: dict[str, float] = {}
    for part, text in enumerate(scored.parts):
        for match in _SENTENCE.finditer(text):
            tokens = tokens_within(found.spans, part, *match.span())
            sentence = " ".join(match[0].split())
            share = sum(found.scores[token] for token in tokens) / total
            shares[sentence] = shares.get(sentence, 0.0) + share
    return shares


def position_shares(attribution: Attribution) -> dict[str, float]:
    """Return the signed share of each patch of an image, by its row and column from 1."""
    scores = attribution.streams["image"].score_map[0].double()
    total = _total(scores.flatten().tolist())
    return {
        f"row {row + 1}, column {column + 1}": float(scores[row, column]) / total
        for row in range(scores.shape[0])
        for column in range(scores.shape[1])
    }


def term_share(found: ExplainedText, patterns: Iterable[re.Pattern[str]]) -> float:
    """Return the share of |relevance| on all places of the terms."""
    parts = ScoredText(found, ()).parts
    tokens = {
        token
        for pattern in patterns
        for part, text in enumerate(parts)
        for match in pattern.finditer(text)
        for token in tokens_within(found.spans, part, *match.span())
    }
    return sum(found.shares[token] for token in tokens)


TEXT_SHARES: Mapping[str, Callable[[ExplainedText], dict[str, float]]] = {
    "words": word_shares,
    "sentences": sentence_shares,
}


def reduce_to_parts(
    method: str,
    target: Any,
    unit: Unit,
    patterns: Sequence[re.Pattern[str]] | None,
    explainer: SampleExplainer,
    samples: Sequence[Sample],
) -> list[ExplainedSample]:
    """Explain samples and return their parts.

    Args:
        method: The method to explain with.
        target: The class to explain; the predicted one if None.
        unit: Which parts to keep.
        patterns: The terms whose share is measured; None if there is no list.
        explainer: The model.
        samples: The samples.
    """
    return [
        _parts(sample, attribution, text, unit, patterns)
        for sample, attribution, text in explainer.explain(samples, method, target)
    ]


def _parts(
    sample: Sample,
    attribution: Attribution,
    text: ExplainedText | None,
    unit: Unit,
    patterns: Sequence[re.Pattern[str]] | None,
) -> ExplainedSample:
    shares = position_shares(attribution) if text is None else TEXT_SHARES[unit](text)
    conservation = attribution.conservation
    return ExplainedSample(
        sample.id,
        attribution.labels[0],
        float(attribution.output[0]),
        shares,
        None if text is None or patterns is None else term_share(text, patterns),
        None if conservation is None else float(conservation[0]),
    )


def _total(scores: Sequence[float]) -> float:
    """The sum of |relevance|; 1 if all relevance is 0, so that all shares are 0."""
    return sum(abs(score) for score in scores) or 1.0
