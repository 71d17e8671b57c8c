"""A tiny model, the bundled one, and explanations that are made up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from tests.audit.making import classifier, wordpiece
from whyformer.attribution import Attribution, Stream
from whyformer.audit.explainer import ExplainedText
from whyformer.audit.token_spans import Span
from whyformer.models.load import Loaded, load_model


@pytest.fixture
def tokenizer() -> Any:
    return wordpiece()


@pytest.fixture
def tiny() -> Loaded:
    """A tiny model that is called tiny."""
    return Loaded(classifier(), wordpiece(), "tiny")


@pytest.fixture(scope="session")
def sst2() -> Loaded:
    """The bundled classifier."""
    return load_model("sst2", None, "text")


Make = Callable[..., ExplainedText]


@pytest.fixture
def explained() -> Make:
    """Makes an explanation out of a text and (span or None, score) of its tokens."""

    def make(
        text: Any,
        tokens: Sequence[tuple[Span | tuple[int, int] | None, float]],
    ) -> ExplainedText:
        spans = tuple(span if span is None or len(span) == 3 else (0, *span) for span, _ in tokens)
        scores = torch.tensor([[score for _, score in tokens]], dtype=torch.float64)
        mask = torch.ones(scores.shape, dtype=torch.bool)
        stream = Stream("text", scores, mask, (tuple("x" for _ in tokens),))
        attribution = Attribution(
            method="lrp_ah_ln",
            streams={"text": stream},
            main="text",
            target=torch.tensor([1]),
            output=torch.tensor([2.0]),
            labels=("positive",),
        )
        return ExplainedText(text, attribution, spans)

    return make
