"""Explain many samples, texts or images, with one model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from whyformer.attribution import Attribution
from whyformer.audit.explainer import BATCH, ExplainedText, TextExplainer
from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.evaluation.sample_sources import SampleSource
from whyformer.explain import explain
from whyformer.models.load import Loaded


@dataclass(frozen=True)
class ExplainSettings:
    """How samples are explained.

    Args:
        kind: What the samples are, "text" or "image".
        truncation: Whether to cut texts that are too long for the model.
        batch: The most samples in one batch.
    """

    kind: str = "text"
    truncation: bool = False
    batch: int = BATCH


class SampleExplainer:
    """A loaded model that explains many samples; `texts` is None if they are images."""

    def __init__(self, loaded: Loaded, settings: ExplainSettings) -> None:
        self.loaded, self.settings = loaded, settings
        self.texts = (
            TextExplainer(loaded, truncation=settings.truncation, batch=settings.batch)
            if settings.kind == "text"
            else None
        )

    @property
    def name(self) -> str:
        """The model's name in tables."""
        return self.loaded.name

    def select(self, read: SampleSource, limit: int | None) -> list[Sample]:
        """Return the first samples, without texts that have no tokens.

        Raises:
            InputError: There are only such texts.
        """
        some = read.samples[:limit]
        kept = [one for one in some if self.texts is None or self.texts.has_content(one.inputs)]
        if not kept:
            raise InputError(
                f"{read.source} has no text that can be explained: all {len(some)} are empty",
                argument="data",
            )
        return kept

    def explain(
        self, samples: Sequence[Sample], method: str, target: Any
    ) -> Iterator[tuple[Sample, Attribution, ExplainedText | None]]:
        """Explain every sample, in order; a text comes with the places of its tokens."""
        if self.texts is not None:
            for sample, text in self.explain_texts(samples, method, target):
                yield sample, text.attribution, text
            return
        attributions = explain(
            iter([sample.inputs for sample in samples]),
            self.loaded.module,
            processor=self.loaded.processor,
            method=method,
            target=target,
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

    def explain_texts(
        self, samples: Sequence[Sample], method: str, target: Any
    ) -> Iterator[tuple[Sample, ExplainedText]]:
        """Explain every text, in order."""
        assert self.texts is not None, "the samples are images"
        texts = [sample.inputs for sample in samples]
        yield from zip(samples, self.texts.explain(texts, method, target), strict=True)
