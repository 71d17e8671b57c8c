"""The samples that a part of an experiment is evaluated on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from whyformer.datasets import Sample, open_dataset
from whyformer.engine.predict import predict
from whyformer.errors import InputError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.collation import inputs_of
from whyformer.evaluation.formatting import count_text
from whyformer.evaluation.metric_inputs import classes_of
from whyformer.inputs.prepare import prepare
from whyformer.models import bundled
from whyformer.models.load import Loaded
from whyformer.reproduce.experiment import ExperimentPart
from whyformer.reproduce.recipes import RECIPES, split_source
from whyformer.reproduce.scene_questions import question_samples

IMAGES_PER_PASS = 32
QUESTIONS = 500


def select_samples(
    part: ExperimentPart, data: Path, limit: int | None, loaded: Loaded
) -> tuple[list[Sample], Sequence[str], str]:
    """Return the samples of a part, the names of their labels, and a remark on skipped rows."""
    if part.data:
        name, place, options = split_source(part.data)
        chosen: dict[str, Any] = {k: str(data / place / value) for k, value in options.items()}
        if part.confident is not None:
            images = open_dataset(f"imagenet:{data / place}", part.split, on_error="skip")
            chosen["only"] = recognised_images(images, loaded, part.confident)
        source = f"{name}:{data / place}"
        found = open_dataset(source, part.split, limit=limit, seed=0, on_error="skip", **chosen)
    elif part.drawn:
        return question_samples(limit or QUESTIONS), (), ""
    elif part.model in RECIPES:
        found = RECIPES[part.model].open(data, "test", limit)
    else:
        return bundled_samples(bundled.models()[part.model])[:limit], (), ""
    # An empty tweet has nothing to explain, and one of a single token nothing to compare.
    written = [sample for sample in found if sample.inputs != ""]
    samples = [sample for sample in written if _has_two_tokens(sample, loaded)]
    skipped, empty = found.report.skipped, found.report.read - len(written)
    if not samples:
        why = f"; the first: {skipped[0]}" if skipped else ""
        raise InputError(
            f"none of {count_text(len(found), 'row')} of {found.name} can be read{why}"
        )
    short = len(written) - len(samples)
    counts = ((len(skipped), "cannot be read"), (empty, "empty"), (short, "a single token"))
    remarks = [f"{count_text(count, 'row')} left out: {why}" for count, why in counts if count]
    return samples, found.labels, "; ".join(remarks)


def _has_two_tokens(sample: Sample, loaded: Loaded) -> bool:
    """Whether a text has at least two tokens to remove; other inputs have."""
    if not isinstance(sample.inputs, str) or loaded.processor is None:
        return True
    return len(loaded.processor(sample.inputs, add_special_tokens=False)["input_ids"]) > 1


def recognised_images(images: Iterable[Sample], loaded: Loaded, least: float) -> set[str]:
    """Return the ids of the images whose class the model gives at least this probability.

    It must also be the class that the model predicts.
    """
    found, samples = set(), list(images)
    for start in range(0, len(samples), IMAGES_PER_PASS):
        batch = samples[start : start + IMAGES_PER_PASS]
        inputs = inputs_of(batch, loaded)
        prepared = prepare(inputs, loaded.module, loaded.processor, loaded.family, False)
        probabilities, classes = predict(loaded.module, prepared).softmax(1).max(1)
        for sample, probability, number in zip(batch, probabilities, classes, strict=True):
            if int(number) == sample.label and float(probability) >= least:
                found.add(sample.id)
    return found


def drop_unknown_labels(samples: Sequence[Sample], loaded: Loaded) -> list[Sample]:
    """Return the samples without labels that the model does not have.

    An answer that a person wrote may not be among the classes. Parts that explain the predicted
    class need no label.
    """
    known = {name.lower() for name in classes_of(loaded).values()}
    return [
        replace(sample, label=None, label_name=None)
        if isinstance(sample.label, str) and sample.label.lower() not in known
        else sample
        for sample in samples
    ]
