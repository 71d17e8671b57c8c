"""Samples in batches of similar length, checked before anything is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from whyformer.batching.budget import pass_cost
from whyformer.batching.plan import plan_batches
from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.evaluation import fingerprint
from whyformer.evaluation.metric_inputs import classes_of, label_of
from whyformer.evaluation.plan import Plan
from whyformer.inputs.sizes import input_sizes
from whyformer.metrics import metrics
from whyformer.models.load import Loaded
from whyformer.models.processors import tokenizer_of
from whyformer.models.signature import stream_of

SAMPLES = 32  # in one batch at most
IMAGES = 8
CHUNK = 16  # samples that are finished together; after a kill the others are computed again
TOKENS = 4096  # padding included


@dataclass(frozen=True)
class SampleBatch:
    """Samples that run together, with their fingerprints and their true classes."""

    samples: tuple[Sample, ...]
    fingerprints: tuple[str, ...]
    labels: tuple[int | None, ...]

    def classes(self) -> Tensor:
        """The true classes, (batch,); raise InputError if a sample has none."""
        for sample, label in zip(self.samples, self.labels, strict=True):
            if label is None:
                raise InputError(
                    f"sample {sample.id!r} has no label",
                    argument="targets",
                    remedy="Explain the predicted class, and use metrics that need no labels",
                )
        return torch.tensor(self.labels)

    def take(self, rows: Sequence[int]) -> SampleBatch:
        """Only the samples in these rows."""
        return SampleBatch(
            tuple(self.samples[i] for i in rows),
            tuple(self.fingerprints[i] for i in rows),
            tuple(self.labels[i] for i in rows),
        )


def label_samples(samples: Sequence[Sample], loaded: Loaded, names: Sequence[str]) -> SampleBatch:
    """The samples with their fingerprints and classes; `names` are the dataset's label names."""
    classes = classes_of(loaded)
    labels = tuple(label_of(sample, names, classes) for sample in samples)
    return SampleBatch(tuple(samples), tuple(map(_fingerprint, samples, labels)), labels)


def cut_samples(samples: SampleBatch) -> list[SampleBatch]:
    """The samples in chunks of one size, in their order."""
    rows = range(len(samples.samples))
    return [samples.take(rows[start : start + CHUNK]) for start in rows[::CHUNK]]


def split_samples(
    samples: Sequence[Sample], loaded: Loaded, names: Sequence[str]
) -> list[SampleBatch]:
    """The samples in batches of similar length, the shortest first.

    The batches depend on the samples and the model alone. `names` are the dataset's label names.
    """
    all_samples = label_samples(samples, loaded, names)
    texts = _text_lengths(samples, loaded)
    lengths, most = (texts, SAMPLES) if texts else ([1] * len(samples), IMAGES)
    cost = pass_cost(loaded.module)
    plan = plan_batches(lengths, tokens=TOKENS, samples=most, pass_cost=cost)
    order = sorted(sorted((lengths[row], row) for row in rows) for rows in plan)
    return [all_samples.take([row for _, row in rows]) for rows in order]


def check_ids(samples: Sequence[Sample]) -> None:
    """Raise InputError if two samples have the same id."""
    for name, count in Counter(sample.id for sample in samples).items():
        if count > 1:
            raise InputError(
                f"{count} samples have the id {name!r}",
                argument="samples",
                remedy="Give each sample a different id",
            )


def check_labels(batches: Sequence[SampleBatch], plan: Plan) -> None:
    """Raise InputError if labels are needed and a sample has none."""
    needed = (
        need.source == "labels"
        for spec in plan.metrics
        for need in metrics[spec.metric].required(spec.options)
    )
    if "label" in plan.targets or any(needed):
        for batch in batches:
            batch.classes()


def _fingerprint(sample: Sample, label: int | None) -> str:
    """The fingerprint of a sample and its class; reads the sample's files."""
    try:
        return fingerprint.of_facts([fingerprint.of_sample(sample), label])
    except OSError as error:
        file = f" {error.filename!r}" if error.filename else ""
        raise InputError(
            f"sample {sample.id!r}: its file{file} cannot be read ({error.strerror or error})",
            argument="samples",
            remedy="Check that the file exists and that you may read it",
        ) from error
    except UnicodeEncodeError as error:
        raise InputError(
            f"sample {sample.id!r}: its name or text has {error.object[error.start : error.end]!r},"
            " which is not valid UTF-8",
            argument="samples",
            remedy="Rename the file, or correct the text",
        ) from error


def _text_lengths(samples: Sequence[Sample], loaded: Loaded) -> list[int]:
    """The number of tokens of each text; empty if some samples have no text."""
    module = loaded.module
    tokenizer = tokenizer_of(loaded.processor, module)
    if tokenizer is None:
        return []
    stream = stream_of(module, loaded.family)
    found = input_sizes([_text_part(sample.inputs) for sample in samples], tokenizer, stream)
    return [size.tokens for size in found] if all(size.is_text for size in found) else []


def _text_part(inputs: Any) -> Any:
    """The text of an input that is a mapping with a text; any other input unchanged."""
    if isinstance(inputs, Mapping) and isinstance(inputs.get("text"), str):
        return inputs["text"]
    return inputs
