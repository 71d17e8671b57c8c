"""Explain and classify many texts with one model, and find where each token is in its text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Stream
from whyformer.audit.token_spans import Span, text_parts, token_spans
from whyformer.batching.budget import pass_cost, token_budget
from whyformer.batching.plan import plan_batches
from whyformer.engine.predict import predict
from whyformer.errors import InputError, ModelError, OptionError, TargetError
from whyformer.explain import explain
from whyformer.inputs.batch import Batch
from whyformer.inputs.detect import Text
from whyformer.inputs.prepare import prepare
from whyformer.inputs.sizes import input_sizes
from whyformer.inputs.tokenizer_scope import tokenizer_scope
from whyformer.inputs.words import special_ids
from whyformer.methods import methods as known
from whyformer.models.families import family_of
from whyformer.models.load import Loaded, load_model
from whyformer.models.processors import tokenizer_of
from whyformer.models.signature import positions_of, stream_of

BATCH = 32


@dataclass(frozen=True)
class ExplainedText:
    """One text, its attribution, and where each of its tokens is in the text."""

    text: Text
    attribution: Attribution
    spans: tuple[Span | None, ...]

    @property
    def stream(self) -> Stream:
        """The stream of tokens that an audit reads."""
        return self.attribution.streams[self.attribution.main]

    @property
    def scores(self) -> list[float]:
        """The relevance of every token, special tokens included."""
        found: list[float] = self.stream.scores[0].double().tolist()
        return found

    @property
    def shares(self) -> list[float]:
        """Every token's share of the sum of |relevance|; 0 if all relevance is 0."""
        scores: Tensor = self.stream.scores[0].double().abs()
        total = scores.sum()
        found: list[float] = (scores / total if float(total) else scores).tolist()
        return found


class TextExplainer:
    """A model that is loaded once and explains or classifies many texts."""

    def __init__(
        self, model: Any, processor: Any = None, *, truncation: bool = False, batch: int = BATCH
    ) -> None:
        check_batch(batch)
        self.loaded = model if isinstance(model, Loaded) else load_model(model, processor, "text")
        self.module = self.loaded.module
        self.tokenizer: Any = tokenizer_of(self.loaded.processor, self.module)
        if self.tokenizer is None:
            raise InputError(
                f"{self.loaded.name} comes without a tokenizer, and an audit reads text",
                argument="processor",
                remedy="Pass processor=, for instance the tokenizer it was trained with",
            )
        self.truncation, self.batch = truncation, batch
        self.limit = positions_of(self.module) if truncation else None

    @property
    def name(self) -> str:
        """The model's name in tables."""
        return self.loaded.name

    def has_content(self, text: Text) -> bool:
        """Return whether the text has tokens other than special ones."""
        if not all(part.strip() for part in text_parts(text)):
            return False
        with tokenizer_scope(self.tokenizer):
            ids = self.tokenizer(*text_parts(text))["input_ids"]
        return not set(ids) <= special_ids(self.tokenizer)

    def explain(
        self, texts: Sequence[Text], method: str, target: Any = None
    ) -> Iterator[ExplainedText]:
        """Explain every text, in order."""
        attributions = explain(
            iter(texts),
            self.module,
            processor=self.loaded.processor,
            method=method,
            target=target,
            truncation=self.truncation,
            batch_size=self.batch,
        )
        for text, found in zip(texts, attributions, strict=True):
            attribution = replace(found, provenance={**found.provenance, "model": self.name})
            stream = attribution.streams[attribution.main]
            if stream.tokens is None:
                raise InputError(
                    f"{self.name} does not read text, and an audit is about words",
                    argument="model",
                    remedy="Pass a text classifier",
                )
            spans = token_spans(text, stream, self.tokenizer, self.limit)
            yield ExplainedText(text, attribution, spans)

    def predict(self, texts: Sequence[Text]) -> Tensor:
        """Return the scores of the classes (texts, classes)."""
        family = family_of(self.module)
        measured = input_sizes(texts, self.tokenizer, stream_of(self.module, family))
        batches = plan_batches(
            [size.tokens for size in measured],
            tokens=token_budget(self.module).tokens,
            samples=self.batch,
            kinds=[size.kind for size in measured],
            pass_cost=pass_cost(self.module),
        )
        found: dict[int, Tensor] = {}
        for batch in batches:
            inputs = prepare(
                [texts[i] for i in batch],
                self.module,
                self.loaded.processor,
                family,
                self.truncation,
            )
            found |= zip(batch, self._class_scores(inputs), strict=True)
        return torch.stack([found[i] for i in range(len(texts))])

    def _class_scores(self, batch: Batch) -> Tensor:
        """The scores of the classes (batch, classes)."""
        remedy = "Load a model with a head for sequence classification"
        can_generate = getattr(self.module, "can_generate", None)
        if can_generate is not None and can_generate():
            raise TargetError(
                f"{type(self.module).__name__} generates text and has no classes to compare",
                argument="model",
                remedy=remedy,
            )
        try:
            return predict(self.module, batch).cpu()
        except (ModelError, TargetError) as error:
            raise TargetError(
                f"{type(self.module).__name__} gives no class scores for a text: {error.message}",
                argument="model",
                remedy=remedy,
            ) from error


def check_batch(batch: int) -> None:
    """Raise OptionError if `batch` is not a number of samples."""
    if isinstance(batch, bool) or batch < 1:
        raise OptionError(
            f"batch={batch!r} is not a number of texts",
            argument="batch",
            remedy="Pass a whole number from 1",
        )


def check_methods(methods: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of the methods, each once.

    Raises:
        OptionError: There are none.
        UnknownNameError: One is not registered.
    """
    names = [methods] if isinstance(methods, str) else list(methods)
    if not names:
        raise OptionError(
            "methods= is empty", argument="methods", remedy="Pass for example 'libragrad'"
        )
    for name in names:
        known[name]  # raises if unknown, before the model is loaded
    return tuple(dict.fromkeys(names))
