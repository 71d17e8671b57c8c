"""The user's data as samples: a list of inputs, a dataset, "name:PATH", or bundled samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.datasets.huggingface import is_huggingface
from whyformer.errors import InputError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.inputs.containers import plain_inputs
from whyformer.models import bundled

SHOWN = 200  # characters of a path


@dataclass(frozen=True)
class SampleSource:
    """Samples, and what is known about them.

    Args:
        samples: The samples; there is at least one.
        names: The dataset's names of its labels.
        source: Where they come from, as text for the user.
        unreadable: How many rows of a dataset were skipped because they cannot be read.
    """

    samples: tuple[Sample, ...]
    names: tuple[str, ...]
    source: str
    unreadable: int = 0


def read_samples(
    data: Any,
    model: Any = None,
    *,
    split: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    on_error: str = "raise",
) -> SampleSource:
    """Return the samples of whatever a user passes as data.

    Args:
        data: "name:PATH", an object of the library `datasets`, a `Dataset`, or inputs in a list, a
            column or an iterator. None for the samples that come with a bundled model.
        model: The name of a bundled model; used only if `data` is None.
        split: The split of a dataset that is opened here.
        limit: Draw this many rows of a dataset that is opened here; all if None. A list is
            returned whole: its callers take the first samples, or draw some.
        seed: The seed of the draw.
        on_error: What to do with rows that cannot be read, "raise" or "skip".

    Raises:
        InputError: The data cannot be read, or there is none.
    """
    found = _read(data, model, split, limit, seed, on_error)
    if not found.samples:
        raise InputError(
            f"there are no samples in {found.source}",
            argument="data",
            remedy="Pass at least one, or check the split",
        )
    return found


def _read(
    data: Any, model: Any, split: str | None, limit: int | None, seed: int, on_error: str
) -> SampleSource:
    if data is None:
        return SampleSource(tuple(_bundled(model)), (), "bundled samples")
    source = str(data)[:SHOWN] if isinstance(data, str | os.PathLike) else ""
    if source or is_huggingface(data):
        data = open_dataset(data, split, limit=limit, seed=seed, on_error=on_error)
    if isinstance(data, Dataset):
        samples = tuple(data)
        return SampleSource(samples, data.labels, source or repr(data), len(data.report.skipped))
    return SampleSource(tuple(_inputs(data)), (), "a list of inputs")


def _bundled(model: Any) -> list[Sample]:
    known = bundled.models()
    if not isinstance(model, str) or model not in known:
        raise InputError(
            "there is no data, and the model comes without samples",
            argument="data",
            remedy="Pass a list of inputs, or a dataset such as 'sst2:PATH'",
        )
    return bundled_samples(known[model])


def _inputs(data: Any) -> list[Sample]:
    inputs = plain_inputs(data)
    one_sample = isinstance(data, Mapping) and not isinstance(inputs, list)
    if one_sample or not isinstance(inputs, Iterable) or isinstance(inputs, bytes | str):
        raise InputError(
            f"data is a {type(data).__name__}; expected a list of inputs or a dataset",
            argument="data",
            remedy="Pass a list of texts, images or pairs, or a dataset such as 'csv:my.csv'",
        )
    return [
        one if isinstance(one, Sample) else Sample(f"input {i}", one)
        for i, one in enumerate(inputs)
    ]
