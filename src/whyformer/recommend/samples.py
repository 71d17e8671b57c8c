"""The user's data as samples in random order: a list of inputs, a dataset, or "name:PATH"."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from whyformer.datasets import Sample
from whyformer.errors import InputError, OptionError
from whyformer.evaluation.sample_batches import check_ids
from whyformer.evaluation.sample_sources import read_samples

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
    read = read_samples(data, model, limit=limit, seed=seed)
    found = read.samples
    check_count(len(found))
    check_ids(found)
    order = random.Random(seed).sample(range(len(found)), min(limit, len(found)))
    return RecommendData(tuple(found[i] for i in order), read.names, read.source)


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
