"""A tiny classifier of words in float64, and its values by hand: for methods that remove tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from math import factorial
from typing import Any

import torch
from torch import Tensor

import whyformer as wf
from tests.evaluation.making import classifier, tokenizer
from whyformer.models.load import Loaded

TEXT = "the gripping plot is not bad, a good film"  # "gripping" is two tokens


@cache
def loaded() -> Loaded:
    found = classifier()
    found.module.double()
    return found


def explain(inputs: Any = TEXT, **options: Any) -> wf.Attribution:
    options = {"target": 1, **options}
    return wf.explain(inputs, loaded().module, processor=loaded().processor, **options)


def ids_of(text: str = TEXT) -> Tensor:
    ids: Tensor = tokenizer()(text, return_tensors="pt")["input_ids"][0]
    return ids


def value(kept: Sequence[int], text: str = TEXT, target: int = 1) -> float:
    """The logit of a text with only the kept tokens, in a plain forward of the model."""
    with torch.no_grad():
        logits: Tensor = loaded().module(ids_of(text)[list(kept)].unsqueeze(0)).logits
    return logits[0, target].item()


def shapley(count: int, worth: dict[frozenset[int], float]) -> list[float]:
    """Shapley values from the definition: weighted marginal contributions to all subsets."""
    scores = []
    for i in range(count):
        others = [j for j in range(count) if j != i]
        total = 0.0
        for size in range(count):
            weight = factorial(size) * factorial(count - size - 1) / factorial(count)
            for subset in map(frozenset, combinations(others, size)):
                total += weight * (worth[subset | {i}] - worth[subset])
        scores.append(total)
    return scores


def worth_of(words: Sequence[tuple[int, ...]], text: str = TEXT) -> dict[frozenset[int], float]:
    """The value of every subset of words; [CLS] and [SEP] always stay."""
    ids = ids_of(text)
    by_length: dict[int, list[tuple[frozenset[int], list[int]]]] = {}
    for size in range(len(words) + 1):
        for subset in combinations(range(len(words)), size):
            kept = [0, *sorted(c for i in subset for c in words[i]), len(ids) - 1]
            by_length.setdefault(len(kept), []).append((frozenset(subset), kept))
    found: dict[frozenset[int], float] = {}
    for every in by_length.values():
        with torch.no_grad():
            logits = loaded().module(torch.stack([ids[kept] for _, kept in every])).logits
        found |= dict(zip((subset for subset, _ in every), logits[:, 1].tolist(), strict=True))
    return found
