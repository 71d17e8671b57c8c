"""The user's data as samples in random order: a list of inputs, a dataset, or "name:PATH"."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from whyformer.datasets import Dataset, Sample, open_dataset
from whyformer.datasets.huggingface import is_huggingface
from whyformer.errors import InputError, OptionError
from whyformer.evaluation.bundled_samples import bundled_samples
from whyformer.evaluation.sample_batches import check_ids
from whyformer.models import bundled

MOST = 512  # samples, if the user does not say how many


@dataclass(frozen=True)
class RecommendData:
    """The samples in the order in which they are used, and the dataset's names of its labels."""

    samples: tuple[Sample, ...]
    names: tuple[str, ...]
    source: str


def read_data(data: Any, model: Any, most: int | None, seed: int) -> RecommendData:
    """Return at most `most` samples in random order.

    Raises:
        InputError: The data cannot be read, or has fewer than two samples.
        OptionError: `most` is below 2.
    """
    if most is not None and (isinstance(most, bool) or most < 2):
        raise OptionError(
            f"samples={most!r} is too few to compare methods",
            argument="samples",
            remedy="Pass a whole number from 2, better from 32",
        )
    limit = MOST if most is None else most
    names: tuple[str, ...] = ()
    if data is None:
        found, source = _bundled(model), "bundled samples"
    elif isinstance(data, str | os.PathLike) or is_huggingface(data):
        opened = open_dataset(data, limit=limit, seed=seed)
        found, names, source = list(opened), opened.labels, str(data)[:200]
    elif isinstance(data, Dataset):
        found, names, source = list(data), data.labels, repr(data)
    else:
        found, source = _inputs(data), "inputs"
    check_count(len(found))
    check_ids(found)
    order = random.Random(seed).sample(range(len(found)), min(limit, len(found)))
    return RecommendData(tuple(found[i] for i in order), names, source)


def check_count(count: int) -> None:
    """Raise InputError if there are fewer than two samples."""
    if count < 2:
        few = "no samples" if count == 0 else "one sample, which is"
        raise InputError(
            f"there are {few} to compare methods on"
            if count == 0
            else f"there is {few} too few to compare methods",
            argument="data",
            remedy="Pass at least two, better 32 or more",
        )


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
    if not isinstance(data, Iterable) or isinstance(data, Mapping | bytes):
        raise InputError(
            f"data is a {type(data).__name__}; expected a list of inputs or a dataset",
            argument="data",
            remedy="Pass a list of texts, images or pairs, or a dataset such as 'csv:my.csv'",
        )
    return [
        one if isinstance(one, Sample) else Sample(f"input {i}", one) for i, one in enumerate(data)
    ]
