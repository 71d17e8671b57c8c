"""Samples on the engines: the same findings everywhere, failed samples, warnings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import pytest

import whyformer as wf
from whyformer.audit import audit_names, audit_terms
from whyformer.audit.explain_samples import SampleResults, explain_samples
from whyformer.audit.sample_explainer import ExplainSettings, SampleExplainer
from whyformer.datasets import Sample
from whyformer.errors import InputError, ModelError, OptionError, TrustWarning
from whyformer.models.load import Loaded
from whyformer.summarize import summarize
from whyformer.workers import EngineOptions

TEXTS = ["the film is good", "Anna saw the film and it was dull", "it is bad", "Anna is not bad"]
LONG = "the film is good and " * 8  # more than the 24 positions of the tiny model
ALONE = EngineOptions()


def lengths(explainer: SampleExplainer, samples: Sequence[Sample]) -> list[int]:
    """The length of each text; some texts misbehave."""
    for sample in samples:
        if sample.inputs == "refuse":
            raise InputError("it is not a good text")
        if sample.inputs == "break":
            raise ZeroDivisionError("by zero")
        if sample.inputs == "model":
            raise ModelError("this model explains nothing")
        if sample.inputs == "doubt":
            warnings.warn("a doubtful text", TrustWarning, stacklevel=2)
    return [len(sample.inputs) for sample in samples]


def run(loaded: Loaded, texts: Sequence[str], on_error: str = "raise") -> list[Any]:
    samples = [Sample(f"s{i}", text) for i, text in enumerate(texts)]
    settings = ExplainSettings(batch=2)
    return list(explain_samples(loaded, settings, lengths, samples, ALONE, on_error))


def test_findings_come_by_place_after_progress(tiny: Loaded) -> None:
    *done, found = run(tiny, ["a", "bb", "ccc"])
    assert done == [2, 3]
    assert found == SampleResults({0: 1, 1: 2, 2: 3}, {})


@pytest.mark.parametrize("bad", ["refuse", "break"])
def test_a_failed_sample_is_named_or_left_out(tiny: Loaded, bad: str) -> None:
    texts = ["a", bad, "ccc", "dddd"]
    with pytest.raises(InputError, match="sample 's1'"):
        run(tiny, texts)
    *done, found = run(tiny, texts, "skip")
    assert found.findings == {0: 1, 2: 3, 3: 4}
    assert [one.sample for one in found.failed.values()] == ["s1"]
    assert done[-1] == 4
    with pytest.raises(InputError, match="sample 's0'"):
        run(tiny, [bad], "skip")


def test_an_error_about_the_model_ends_the_work(tiny: Loaded) -> None:
    with pytest.raises(ModelError, match="explains nothing"):
        run(tiny, ["a", "b", "model"], "skip")
    with pytest.raises(OptionError, match="on_error"):
        run(tiny, ["a"], "ignore")


def test_warnings_of_workers_are_heard_once(tiny: Loaded) -> None:
    with pytest.warns(TrustWarning, match="doubtful text") as heard:
        run(tiny, ["doubt", "a", "doubt"])
    assert len(heard) == 1


def test_audits_list_the_samples_that_cannot_be_explained(tiny: Loaded) -> None:
    with pytest.raises(InputError, match=r"sample 'input 4'.*truncation=True"):
        audit_terms([*TEXTS, LONG], tiny, draws=5)
    for found in (
        audit_terms([*TEXTS, LONG], tiny, on_error="skip", draws=5),
        summarize([*TEXTS, LONG], tiny, on_error="skip", draws=5),
    ):
        assert len(found.rows) == found.settings["samples"] == len(TEXTS)
        assert [one["sample"] for one in found.settings["failures"]] == ["input 4"]
        assert any("1 sample could not be explained" in note for note in found.notes)


@pytest.mark.slow
def test_two_processes_find_the_same(tiny: Loaded) -> None:
    """A model from memory is sent to them, and a bundled one loaded by its name."""
    two = EngineOptions(workers=2)
    terms: dict[str, Any] = {
        "terms": ["Anna", "film"],
        "methods": ["libragrad", "gae"],
        "min_count": 1,
    }
    alone, both = (
        audit_terms([*TEXTS, LONG], tiny, **terms, on_error="skip", batch=2, draws=20, engine=one)
        for one in (ALONE, two)
    )
    assert both.rows == alone.rows
    assert both.tables == alone.tables
    assert both.settings == alone.settings
    names: dict[str, Any] = {
        "names": {"a": ["Anna", "Mary"], "b": ["Bob"]},
        "batch": 2,
        "draws": 20,
    }
    sentences = ["{name} saw the film.", "the film by {name} is good."]
    first = audit_names(templates=sentences, **names, engine=ALONE)
    second = wf.audit("names", templates=sentences, **names, engine=two)
    assert second.rows == first.rows
    assert second.tables == first.tables
