"""What a worker of a summary does: it loads the model once, explains samples, keeps their parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from whyformer.attribution import Attribution
from whyformer.audit.explainer import ExplainedText, TextExplainer
from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.explain import explain
from whyformer.models.load import Loaded, load_model
from whyformer.summarize.parts import (
    ExplainedSample,
    Unit,
    position_shares,
    sentence_shares,
    term_share,
    word_shares,
)
from whyformer.workers.chunk import Work


@dataclass(frozen=True)
class ExplainSettings:
    """How samples are explained; `kind` is "text" or "image"."""

    kind: str
    method: str
    target: Any
    truncation: bool
    batch: int


class SampleExplainer:
    """A loaded model that explains many samples, texts or images."""

    def __init__(self, loaded: Loaded, settings: ExplainSettings) -> None:
        self.loaded, self.settings = loaded, settings
        self._texts = (
            TextExplainer(loaded, truncation=settings.truncation, batch=settings.batch)
            if settings.kind == "text"
            else None
        )

    def has_content(self, sample: Sample) -> bool:
        """Return whether a text has tokens other than special ones."""
        return self._texts is None or self._texts.has_content(sample.inputs)

    def explain(
        self, samples: Sequence[Sample]
    ) -> Iterator[tuple[Sample, Attribution, ExplainedText | None]]:
        """Explain every sample, in order; a text comes with the places of its tokens."""
        inputs = [sample.inputs for sample in samples]
        if self._texts is not None:
            found = self._texts.explain(inputs, self.settings.method, self.settings.target)
            for sample, text in zip(samples, found, strict=True):
                yield sample, text.attribution, text
            return
        attributions = explain(
            iter(inputs),
            self.loaded.module,
            processor=self.loaded.processor,
            method=self.settings.method,
            target=self.settings.target,
            batch_size=self.settings.batch,
        )
        for sample, attribution in zip(samples, attributions, strict=True):
            if attribution.streams[attribution.main].grid is None:
                raise InputError(
                    f"{self.loaded.name} has no grid of patches for its images",
                    argument="model",
                    remedy="Pass a model that reads images in patches",
                )
            yield sample, attribution, None


@dataclass(frozen=True)
class SummaryTask:
    """Explains samples and keeps the shares of their parts.

    Args:
        model: The loaded model, or its name if a worker is to load it.
        settings: How to explain.
        unit: Which parts to keep.
        patterns: The terms whose share is measured; None if there is no list.
    """

    model: Loaded | str
    settings: ExplainSettings
    unit: Unit
    patterns: Sequence[re.Pattern[str]] | None

    def open(self) -> Work:
        """Load the model; return the function from samples to their parts."""
        loaded = load_model(self.model) if isinstance(self.model, str) else self.model
        explainer = SampleExplainer(loaded, self.settings)

        def reduce_samples(samples: Sequence[Sample]) -> list[ExplainedSample]:
            return [
                _reduce(sample, attribution, text, self.unit, self.patterns)
                for sample, attribution, text in explainer.explain(samples)
            ]

        return reduce_samples


TEXT_SHARES: Mapping[str, Callable[[ExplainedText], dict[str, float]]] = {
    "words": word_shares,
    "sentences": sentence_shares,
}


def _reduce(
    sample: Sample,
    attribution: Attribution,
    text: ExplainedText | None,
    unit: Unit,
    patterns: Sequence[Any] | None,
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
