"""A unit is computed again exactly if something that decides its value has changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.evaluation.making import classifier, plan, sentences
from whyformer.evaluation import batch_evaluation, code_version, sample_batches, units
from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.results import RESULTS
from whyformer.methods import methods
from whyformer.metrics import metrics
from whyformer.models.load import Loaded
from whyformer.models.versions import version_of
from whyformer.pipeline.explain_each import explain_each

pytestmark = pytest.mark.slow


@pytest.fixture
def loaded() -> Loaded:
    return classifier()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many samples were explained by which method."""
    counted: Counter[str] = Counter()

    def counting(inputs: Any, model: Any, asks: Any) -> Any:
        asks = list(asks)
        counted.update(ask.method for ask in asks for _ in range(inputs.size))
        return explain_each(inputs, model, asks)

    monkeypatch.setattr(batch_evaluation, "explain_each", counting)
    return counted


@pytest.fixture
def fresh_code() -> Iterator[None]:
    """Forget what was read of the code, before and after."""

    def forget() -> None:
        for known in (code_version.of_function, code_version.of_shared_code):
            known.cache_clear()
        for part in ("_of_modules", "_source", "_imports", "_file"):
            getattr(code_version, part).cache_clear()

    forget()
    yield
    forget()


def run(loaded: Loaded, folder: Path, **more: Any) -> Any:
    return evaluate(loaded, sentences(5), plan(("random", "gae"), **more), folder, report=False)


def test_a_changed_method_computes_its_own_units_again(
    loaded: Loaded, tmp_path: Path, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run(loaded, tmp_path)
    calls.clear()
    known = methods["gae"]

    def halved(task: Any, **options: Any) -> Any:
        found = known.compute(task, **options)
        return replace(found, scores={name: one / 2 for name, one in found.scores.items()})

    with monkeypatch.context() as patched:
        patched.setitem(methods._entries, "gae", replace(known, compute=halved))
        after = run(loaded, tmp_path)
    assert calls == {"gae": 5}
    names = [{r["unit"] for r in rows.rows if r["method"] == "random"} for rows in (before, after)]
    assert names[0] == names[1]
    calls.clear()
    again = run(loaded, tmp_path)  # the old code finds its old units
    assert not calls
    assert again.rows == before.rows


@pytest.mark.parametrize(
    ("module", "changed"),
    [
        ("methods.gae", {"gae"}),
        ("methods.random", {"random"}),
        ("methods.attention.relevancy", {"gae"}),
        ("metrics.auac", {"gae", "random"}),
        ("engine.forward", {"gae", "random"}),
        ("models.families.bert", {"gae", "random"}),
        ("render.canvas", set()),
        ("metrics.au_mse", set()),
    ],
)
def test_a_changed_file_changes_the_names_of_what_uses_it(
    monkeypatch: pytest.MonkeyPatch, fresh_code: None, module: str, changed: set[str]
) -> None:
    run_plan = plan(("gae", "random"), ("auac",))
    model = units.EvaluatedModel(classifier(), "x")

    def names() -> dict[str, str]:
        (facts,) = units.row_facts(run_plan.metrics[0], run_plan).values()
        return {
            one.label: units.unit_id(model, "s", one, "predicted", facts, run_plan)
            for one in run_plan.methods
        }

    before = names()
    source = code_version._source

    def edited(name: str) -> bytes:
        return source(name) + (b"\n# another line\n" if name == module else b"")

    for known in (code_version.of_function, code_version.of_shared_code, code_version._of_modules):
        known.cache_clear()
    monkeypatch.setattr(code_version, "_source", edited)
    after = names()
    # The test's own patch is undone before the caches are cleared by the fixture.
    monkeypatch.undo()
    assert {name for name in before if before[name] != after[name]} == changed


@pytest.mark.parametrize("package", ["torch", "transformers", "whyformer"])
def test_another_version_computes_everything_again(
    loaded: Loaded,
    tmp_path: Path,
    calls: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
    package: str,
) -> None:
    before = run(loaded, tmp_path)
    calls.clear()
    monkeypatch.setattr(
        units, "version_of", lambda name: "9.9" if name == package else version_of(name)
    )
    after = run(loaded, tmp_path)
    assert calls == {"random": 5, "gae": 5}
    assert after.settings["versions"] == {**before.settings["versions"], package: "9.9"}
    assert not {r["unit"] for r in before.rows} & {r["unit"] for r in after.rows}


def test_every_method_and_metric_has_a_code_of_its_own() -> None:
    found = [code_version.of_function(one.compute) for one in methods.values()]
    assert len(set(found)) == len(found)
    assert all(code_version.of_function(one.compute) for one in metrics.values())


def sorted_rows(folder: Path) -> Any:
    table = parquet.read_table(folder / RESULTS)
    return table.sort_by(
        [("sample", "ascending"), ("method", "ascending"), ("metric", "ascending")]
    )


TEXT_METRICS = ("auac", "au_mse", "perturbation_positive", "comprehensiveness", "agreement")


@pytest.mark.parametrize("first", [slice(40), slice(0, None, 3), slice(None, None, -1)])
@pytest.mark.slow
def test_what_ran_before_changes_no_bit(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: slice
) -> None:
    samples = sentences(60)
    run_plan = plan(("gae", "lrp_ah", "random"), TEXT_METRICS)
    fresh = evaluate(loaded, samples, run_plan, tmp_path / "fresh", report=False)
    evaluate(loaded, samples[first], run_plan, tmp_path / "grown", report=False)
    grown = evaluate(loaded, samples, run_plan, tmp_path / "grown", report=False)
    assert grown.rows == fresh.rows
    assert sorted_rows(tmp_path / "grown").equals(sorted_rows(tmp_path / "fresh"))
    files = [(tmp_path / name / RESULTS).read_bytes() for name in ("fresh", "grown")]
    assert files[0] == files[1]


def test_other_methods_metrics_chunks_and_threads_change_no_bit(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = sentences(12)
    whole = plan(("gae", "lrp_ah", "random"), TEXT_METRICS)
    fresh = evaluate(loaded, samples, whole, tmp_path / "fresh", report=False)
    # The same units by and by, in other chunks.
    monkeypatch.setattr(sample_batches, "CHUNK", 5)
    for names, measures in ((("random",), ("au_mse",)), (("lrp_ah", "gae"), TEXT_METRICS[::-1])):
        evaluate(loaded, samples[::-1], plan(names, measures), tmp_path / "slow", report=False)
    assert evaluate(loaded, samples, whole, tmp_path / "slow", report=False).rows == fresh.rows
