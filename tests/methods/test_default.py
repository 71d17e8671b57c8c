"""The default method on whole samples: scores and sinks sum to the output, with its sign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whyformer as wf
from whyformer.datasets import open_dataset

SENTENCES = 200
CONSERVED = 1e-3  # the distance of `conservation` from 1, in float32

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("error::whyformer.errors.ConservationWarning"),
]


def assert_conserves(inputs: Any, model: str) -> None:
    found = wf.explain(inputs, model)
    assert found.conservation is not None
    off = (found.conservation.double() - 1).abs().max()
    assert float(off) < CONSERVED, f"{inputs!r}: {found.conservation.tolist()}"


@pytest.mark.parametrize("name", list(wf.models()))
def test_it_conserves_on_every_sample_of_a_bundled_model(name: str) -> None:
    for sample in wf.models()[name].samples():
        assert_conserves(sample, name)


@pytest.mark.data
def test_it_conserves_on_sentences_of_sst2(data: Path) -> None:
    sentences = open_dataset(f"sst2:{data / 'sst2'}", limit=SENTENCES, seed=0)
    texts = [str(sample.inputs) for sample in sentences]
    assert len(texts) == SENTENCES
    assert_conserves(texts, "sst2")
