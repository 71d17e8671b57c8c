"""Comparisons of several models name each of them."""

from __future__ import annotations

import re
from dataclasses import replace

import whyformer as wf
from whyformer.render.comparison import compare_samples


def test_several_models_are_all_named_with_their_probability() -> None:
    first = wf.explain("a good film")
    second = replace(first, provenance={**first.provenance, "model": "mine"}, labels=("happy",))
    sample = compare_samples([first, second])[0]
    assert sample.models == "sst2, mine"
    assert re.fullmatch(r"sst2: positive [\d.]+ %, mine: happy [\d.]+ %", sample.chances)
    assert sample.trusts[0][0] == "sst2, libragrad, positive; mine, libragrad, happy"
