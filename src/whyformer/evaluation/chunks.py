"""Samples in chunks of similar length, checked before anything is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from whyformer.datasets import Sample
from whyformer.errors import InputError
from whyformer.evaluation import fingerprint
from whyformer.evaluation.metric_inputs import classes_of, label_of
from whyformer.evaluation.plan import Plan
from whyformer.evaluation.work import Chunk
from whyformer.inputs.text import tokenizer_scope
from whyformer.models.load import Loaded
from whyformer.models.processors import tokenizer_of

SAMPLES = 32  # at most, in one chunk; what was not finished of one is done again after a kill
IMAGES = 8
TOKENS = 4096  # at most, padding included


def chunked(
    samples: Sequence[Sample], loaded: Loaded, plan: Plan, names: Sequence[str]
) -> Iterator[Chunk]:
    """The samples by length, in pieces that fit; the same pieces whatever is done already."""
    classes = classes_of(loaded)
    # A label that the model does not have is said before anything is computed.
    labels = tuple(label_of(sample, names, classes) for sample in samples)
    everyone = Chunk(tuple(samples), tuple(map(_named, samples, labels)), labels)
    texts = _lengths(samples, loaded)
    most, lengths = (SAMPLES, texts) if texts else (IMAGES, [1] * len(samples))
    batch: list[int] = []
    for index in sorted(range(len(samples)), key=lambda i: (lengths[i], i)):
        if batch and (len(batch) == most or (len(batch) + 1) * lengths[index] > TOKENS):
            yield everyone.among(batch)
            batch = []
        batch.append(index)
    if batch:
        yield everyone.among(batch)


def _named(sample: Sample, label: int | None) -> str:
    """The sample's name by content, its class included; its files are read for it."""
    try:
        return fingerprint.named([fingerprint.of_sample(sample), label])
    except OSError as error:
        what = f" {error.filename!r}" if error.filename else ""
        raise InputError(
            f"sample {sample.id!r}: its file{what} cannot be read ({error.strerror or error});"
            " check that it is there and may be read"
        ) from error
    except UnicodeEncodeError as error:
        raise InputError(
            f"sample {sample.id!r}: there is {error.object[error.start : error.end]!r} in its name"
            " or text, which is no character of UTF-8; rename the file, or correct the text"
        ) from error


def check_ids(samples: Sequence[Sample]) -> None:
    """Nothing; raises where two samples have one id, which rows could not be told apart by."""
    for name, count in Counter(sample.id for sample in samples).items():
        if count > 1:
            raise InputError(f"{count} samples have the id {name!r}; give each an id of its own")


def check_labels(chunks: Sequence[Chunk], plan: Plan) -> None:
    """Nothing; raises where labels are to be used and a sample has none."""
    against = any(one.options.get("against") == "label" for one in plan.measures)
    if "label" in plan.targets or against:
        for chunk in chunks:
            chunk.classes()


def _lengths(samples: Sequence[Sample], loaded: Loaded) -> list[int]:
    """How many tokens each text has; nothing where samples are not texts."""
    tokenizer = tokenizer_of(loaded.processor, loaded.module)
    texts = [_text(sample.inputs) for sample in samples]
    if tokenizer is None or any(text is None for text in texts):
        return []
    with tokenizer_scope(tokenizer):
        ids = tokenizer([str(text) for text in texts], truncation=False, padding=False)
    return [len(row) for row in ids["input_ids"]]


def _text(inputs: Any) -> str | None:
    """What a sample says, pairs in one; None where it is not text alone."""
    if isinstance(inputs, str):
        return inputs
    if isinstance(inputs, Mapping) and isinstance(inputs.get("text"), str):
        return str(inputs["text"])
    both = isinstance(inputs, tuple) and all(isinstance(part, str) for part in inputs)
    return " ".join(inputs) if both else None
