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


@dataclass(frozen=True)
class SampleSource:
    """Samples, the dataset's names of its labels, and where they come from."""

    samples: tuple[Sample, ...]
    names: tuple[str, ...]
    source: str


def read_samples(data: Any, model: Any, limit: int | None = None, seed: int = 0) -> SampleSource:
    """Return the samples; `limit` and `seed` draw some of a dataset that is opened by its name.

    Raises:
        InputError: The data cannot be read, or there is none.
    """
    if data is None:
        return SampleSource(tuple(_bundled(model)), (), "bundled samples")
    if isinstance(data, str | os.PathLike) or is_huggingface(data):
        data = open_dataset(data, limit=limit, seed=seed)
        return SampleSource(tuple(data), data.labels, repr(data))
    if isinstance(data, Dataset):
        return SampleSource(tuple(data), data.labels, repr(data))
    return SampleSource(tuple(_inputs(data)), (), "inputs")


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
