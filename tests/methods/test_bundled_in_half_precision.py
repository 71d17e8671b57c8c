"""Bundled models in float16 and bfloat16: the ranking of float64, or a warning."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from scipy.stats import spearmanr
from torch import nn

import whyformer as wf
from whyformer.errors import TrustWarning
from whyformer.models.load import load_model

METHODS = [name for name, method in wf.methods().items() if not method.slow and name != "random"]
CLOSE = 0.99  # rank correlation with float64 of the same weights


def explain(sample: object, model: nn.Module, processor: object, method: str) -> wf.Attribution:
    options = {"steps": 4} if method == "integrated_gradients" else {}
    return wf.explain(sample, model, method=method, processor=processor, **options)


def correlation(one: wf.Attribution, two: wf.Attribution) -> float:
    """The lowest rank correlation of a stream; 1 if both maps are constant."""
    found = 1.0
    for name, stream in one.streams.items():
        pair = [a.streams[name].scores[stream.mask].double().numpy() for a in (one, two)]
        if any(values.min() != values.max() for values in pair):
            found = min(found, float(spearmanr(*pair).statistic))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("bundled", wf.models())
def test_it_ranks_as_float64_does_or_warns(bundled: str, method: str, dtype: torch.dtype) -> None:
    loaded = load_model(bundled, None, None)
    sample = wf.models()[bundled].samples()[0]
    half = copy.deepcopy(loaded.module).to(dtype)
    wide = copy.deepcopy(half).double()
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = explain(sample, half, loaded.processor, method)
    doubts = [one for one in heard if issubclass(one.category, TrustWarning)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = explain(sample, wide, loaded.processor, method)
    assert doubts or correlation(found, expected) >= CLOSE
