"""A new metric may declare a new need in its file: the evaluation finds both."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from torch import Tensor

from tests.evaluation.making import classifier, plan, sentences
from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.evaluation.default_metrics import default_metrics
from whyformer.evaluation.evaluate import evaluate
from whyformer.metrics import Need, Score, metric, metrics


@pytest.fixture
def gaze(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register, for one test, a metric that needs where people looked."""
    monkeypatch.setattr(metrics, "_entries", dict(metrics))

    @metric(
        "gaze",
        title="Gaze: did people look there?",
        paper="Nobody 2026",
        better="higher",
        range=(0.0, None),
        convention="The sum of the gaze.",
        needs=(Need("looked", "how long people looked, (batch, 2)", extra="gaze"),),
    )
    def gaze(attribution: Attribution, looked: Tensor) -> Score:
        return Score(looked.double().sum(1), convention="sum")


@pytest.mark.usefixtures("gaze")
def test_a_need_is_read_from_the_samples_extras(tmp_path: Path) -> None:
    samples = [replace(one, extras={"gaze": [float(i), 1.0]}) for i, one in enumerate(sentences(5))]
    results = evaluate(classifier(), samples, plan(("gae",), ("gaze",)), tmp_path)
    assert [row["value"] for row in results.rows] == [1, 2, 3, 4, 5]
    assert "gaze" in default_metrics(classifier(), samples)[0]
    assert "gaze" not in default_metrics(classifier(), sentences(2))[0]
    with pytest.raises(InputError, match="sample 'dev/0' has no gaze: how long people looked"):
        evaluate(classifier(), sentences(2), plan(("gae",), ("gaze",)), tmp_path / "other")
    assert [need.name for need in metrics["gaze"].required({})] == ["looked"]


def test_the_metrics_that_fit_come_in_one_order() -> None:
    names, reason = default_metrics(classifier(), sentences(1))
    assert reason == ""
    assert names == (
        "au_mse",
        "auac",
        "comprehensiveness",
        "perturbation_negative",
        "perturbation_positive",
        "sufficiency",
        "conservation",
    )


def test_labels_are_needed_only_against_the_label() -> None:
    auac = metrics["auac"]
    assert [need.name for need in auac.required({})] == ["rerun"]
    assert [need.name for need in auac.required({"against": "label"})] == ["rerun", "labels"]
