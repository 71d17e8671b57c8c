"""The samples that a part of an experiment is evaluated on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from whyformer.datasets import Sample, open_dataset
from whyformer.errors import InputError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.formatting import count_text
from whyformer.evaluation.metric_inputs import classes_of
from whyformer.models import bundled
from whyformer.models.load import Loaded
from whyformer.reproduce.experiments import ExperimentPart
from whyformer.reproduce.recipes import RECIPES, split_source


def select_samples(
    part: ExperimentPart, data: Path, limit: int | None
) -> tuple[list[Sample], Sequence[str], str]:
    """Return the samples of a part, the names of their labels, and a remark on skipped rows."""
    if part.data:
        name, place, options = split_source(part.data)
        paths = {key: str(data / place / value) for key, value in options.items()}
        source = f"{name}:{data / place}"
        found = open_dataset(source, part.split, limit=limit, seed=0, on_error="skip", **paths)
    elif part.model in RECIPES:
        found = RECIPES[part.model].open(data, "test", limit)
    else:
        return bundled_samples(bundled.models()[part.model])[:limit], (), ""
    # An empty tweet has nothing to explain.
    samples = [sample for sample in found if sample.inputs != ""]
    skipped, empty = found.report.skipped, found.report.read - len(samples)
    if not samples:
        why = f"; the first: {skipped[0]}" if skipped else ""
        raise InputError(
            f"none of {count_text(len(found), 'row')} of {found.name} can be read{why}"
        )
    counts = ((len(skipped), "cannot be read"), (empty, "empty"))
    remarks = [f"{count_text(count, 'row')} left out: {why}" for count, why in counts if count]
    return samples, found.labels, "; ".join(remarks)


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
