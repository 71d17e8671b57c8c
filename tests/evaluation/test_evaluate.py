"""Whole runs: values computed by hand, one explanation for all metrics, and resuming."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import transformers
from PIL import Image
from torch import Tensor

import whyformer as wf
from tests.evaluation.making import classifier, plan, sentences, shortened, tokenizer
from whyformer.batching.progress import Progress
from whyformer.datasets import Sample, open_dataset
from whyformer.errors import InputError, SkippedWarning, WhyformerError
from whyformer.evaluation import batch_evaluation, sample_batches
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.evaluate import evaluate, run_evaluation
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.sample_batches import split_samples
from whyformer.evaluation.store import PARTS, StoreError
from whyformer.metrics import metrics
from whyformer.models.families.tiny import tiny_models
from whyformer.models.load import Loaded
from whyformer.pipeline.explain_each import explain_each

FILES = (RESULTS, SETTINGS, "table.md")


@pytest.fixture
def loaded() -> Loaded:
    return classifier()


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit batches to four samples, so that few samples make several batches."""
    monkeypatch.setattr(sample_batches, "SAMPLES", 4)
    monkeypatch.setattr(sample_batches, "IMAGES", 4)
    monkeypatch.setattr(sample_batches, "CHUNK", 4)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many samples were explained by which method."""
    counted: Counter[str] = Counter()

    def counting(inputs: Any, model: Any, asks: Any) -> Any:
        asks = list(asks)
        for ask in asks:
            counted[ask.method] += inputs.size
        return explain_each(inputs, model, asks)

    monkeypatch.setattr(batch_evaluation, "explain_each", counting)
    return counted


def files(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in FILES}


def by_key(results: Results) -> dict[tuple[str, ...], Mapping[str, Any]]:
    return {(r["sample"], r["method"], r["target"], r["metric"]): r for r in results.rows}


# -- values ----------------------------------------------------------------------------------------

SIGNED = ("gradient_x_input", "lrp_ah")  # methods whose scores have a sign
TEXT_METRICS = (
    "auac",
    "au_mse",
    "perturbation_positive",
    "perturbation_negative",
    "comprehensiveness",
    "sufficiency",
    "conservation",
)


@pytest.mark.slow
def test_values_are_those_of_single_samples_by_hand(loaded: Loaded, tmp_path: Path) -> None:
    samples = sentences(5)
    run_plan = plan(SIGNED, TEXT_METRICS, ("predicted", "label"))
    results = evaluate(loaded, samples, run_plan, tmp_path, report=False)
    found = by_key(results)
    assert len(found) == len(results.rows) == 5 * 2 * 2 * len(TEXT_METRICS)
    for sample in samples:
        ids = loaded.processor(sample.inputs, return_tensors="pt")["input_ids"][0]

        def rerun(kept: Mapping[str, Tensor], ids: Tensor = ids) -> Tensor:
            return shortened(loaded, ids, kept["text"][0]).unsqueeze(0)

        predicted = int(shortened(loaded, ids, torch.ones_like(ids).bool()).argmax())
        for target, index in (("predicted", predicted), ("label", sample.label)):
            for method_spec in run_plan.methods:
                attribution = wf.explain(
                    sample.inputs,
                    loaded.module,
                    processor=loaded.processor,
                    method=method_spec.method,
                    target=index,
                    **method_spec.options,
                )
                for measure in run_plan.metrics:
                    needs = {"rerun": rerun} if metrics[measure.metric].reruns else {}
                    score = metrics[measure.metric](attribution, **needs, **measure.options)
                    row = found[sample.id, method_spec.label, target, measure.label]
                    assert row["value"] == pytest.approx(float(score.values[0]), abs=2e-5)
                    assert (row["explained"], row["label"]) == (index, sample.label)
                    if row["curve"] is not None:
                        assert row["curve"] == pytest.approx(score.curve[0].tolist(), abs=2e-5)


def test_rows_come_in_the_order_of_the_samples(loaded: Loaded, tmp_path: Path) -> None:
    samples = sentences(9)
    run_plan = plan(SIGNED, ("auac", "conservation"))
    results = evaluate(loaded, samples, run_plan, tmp_path)
    order = [(r["sample"], r["method"], r["metric"]) for r in results.rows]
    assert order == [
        (sample.id, method, metric)
        for sample in samples
        for method in SIGNED
        for metric in ("auac", "conservation")
    ]
    assert [*Results.read(tmp_path).rows] == [dict(_columns(row)) for row in results.rows]
    settings = json.loads((tmp_path / SETTINGS).read_text("utf-8"))
    assert settings["fill"] == "each stream's default"
    assert "filled: drop" in settings["metrics"]["auac"]["convention"]
    assert settings["seed"] == 0
    assert set(settings["versions"]) == {"whyformer", "torch", "transformers", "tokenizers"}
    assert settings["data"]["samples"] == 9
    page = (tmp_path / "report.html").read_text("utf-8")
    assert "filled: drop" in page


def _columns(row: Mapping[str, Any]) -> dict[str, Any]:
    return {**row, "convention": None, "steps": None, "fill": None}


def test_batches_have_similar_lengths_and_every_sample(loaded: Loaded) -> None:
    samples = sentences(23)
    batches = split_samples(samples, loaded, ())
    ids = [sample.id for batch in batches for sample in batch.samples]
    assert sorted(ids) == sorted(sample.id for sample in samples)
    lengths = [[len(sample.inputs.split()) for sample in batch.samples] for batch in batches]
    assert all(max(one) <= min(other) for one, other in pairwise(lengths))


def test_a_batch_has_at_most_the_token_limit(
    loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_batches, "TOKENS", 12)
    for batch in split_samples(sentences(23), loaded, ()):
        longest = max(len(sample.inputs.split()) + 2 for sample in batch.samples)
        assert len(batch.samples) == 1 or len(batch.samples) * longest <= 12


def test_the_tokenizer_is_restored(loaded: Loaded, tmp_path: Path) -> None:
    backend = loaded.processor.backend_tokenizer
    backend.enable_truncation(max_length=7)
    try:
        evaluate(loaded, sentences(3), plan(("random",)), tmp_path, report=False)
        assert backend.truncation["max_length"] == 7
    finally:
        backend.no_truncation()


def test_one_explanation_serves_all_metrics(
    loaded: Loaded, tmp_path: Path, calls: Counter[str]
) -> None:
    run_plan = plan(SIGNED, (*TEXT_METRICS, "agreement"), ("predicted",))
    evaluate(loaded, sentences(9), run_plan, tmp_path, report=False)
    assert calls == {"gradient_x_input": 9, "lrp_ah": 9}


def test_agreement(loaded: Loaded, tmp_path: Path) -> None:
    names = ("random", "gae", "lrp_ah_ln")
    results = evaluate(loaded, sentences(6), plan(names, ("agreement",)), tmp_path)
    found = by_key(results)
    for sample in sentences(6):
        for one in names:
            itself = found[sample.id, one, "predicted", f"agreement/{one}"]["value"]
            assert itself == pytest.approx(1.0)
            for other in names:
                here = found[sample.id, one, "predicted", f"agreement/{other}"]["value"]
                there = found[sample.id, other, "predicted", f"agreement/{one}"]["value"]
                assert here == pytest.approx(there, abs=1e-12)


def test_randomisation(loaded: Loaded, tmp_path: Path) -> None:
    names = ("random", "gae")
    results = evaluate(loaded, sentences(5), plan(names, ("randomisation",)), tmp_path)
    for row in results.rows:
        assert len(row["curve"]) == 3
        assert -1 <= row["value"] <= 1
    # "random" draws its scores from the inputs alone, not from the weights.
    assert all(r["value"] == pytest.approx(1.0) for r in results.rows if r["method"] == "random")
    assert any(r["value"] < 0.99 for r in results.rows if r["method"] == "gae")


def test_curves_over_each_methods_own_layers(loaded: Loaded, tmp_path: Path) -> None:
    # Conservation has as many steps as a method keeps layers: no curve is common to all.
    names = ("full_lrp", "partial_lrp", "lrp_ah")
    results = evaluate(loaded, sentences(3), plan(names, ("conservation",)), tmp_path)
    assert results.settings["metrics"]["conservation"]["steps"] is None
    assert len({len(row["curve"] or ()) for row in results.rows}) > 1
    assert (tmp_path / "report.html").is_file()
    alone = evaluate(loaded, sentences(3), plan(("full_lrp",), ("conservation",)), tmp_path)
    assert alone.settings["metrics"]["conservation"]["steps"] == [0.0, 1.0]


@pytest.mark.parametrize("fill", ["drop", "mask", "unknown", "zero", "mean"])
def test_every_fill_is_printed_with_the_result(loaded: Loaded, tmp_path: Path, fill: str) -> None:
    results = evaluate(loaded, sentences(3), plan(("gae",), fill=fill), tmp_path)
    assert results.settings["fill"] == fill
    for name in ("table.md", "report.html", SETTINGS):
        assert f"filled: {fill}" in (tmp_path / name).read_text("utf-8")


def test_fills_do_not_share_their_rows(loaded: Loaded, tmp_path: Path) -> None:
    values = {
        fill: [r["value"] for r in evaluate(
            loaded, sentences(3), plan(("gae",), fill=fill), tmp_path, report=False
        ).rows]
        for fill in ("mask", "zero", "mean")
    }  # fmt: skip
    assert len({tuple(found) for found in values.values()}) == 3


def test_progress_is_told(loaded: Loaded, tmp_path: Path) -> None:
    *steps, results = run_evaluation(loaded, sentences(9), plan(), tmp_path)
    assert isinstance(results, Results)
    assert steps[0] == Progress("reading samples", 0, 0)
    assert steps[1:-1] == [Progress("measuring", done, 9) for done in (0, 4, 8, 9)]
    assert steps[-1] == Progress("writing the report", 9, 9)
    *steps, again = run_evaluation(loaded, sentences(9), plan(), tmp_path)
    assert steps[1:] == [Progress("writing the report", 9, 9)]  # nothing is left to do
    assert isinstance(again, Results)
    assert again.settings == results.settings


# -- resuming --------------------------------------------------------------------------------------


def test_the_same_again_does_nothing_and_writes_the_same(
    loaded: Loaded, tmp_path: Path, calls: Counter[str]
) -> None:
    for _ in range(2):
        evaluate(loaded, sentences(9), plan(), tmp_path, report=False)
        assert calls == {"random": 9, "gae": 9}
    before = files(tmp_path)
    evaluate(classifier(), sentences(9), plan(), tmp_path / "other", report=False)
    assert files(tmp_path / "other") == before


@pytest.mark.parametrize("stops", [1, 8, 17, 25])
@pytest.mark.slow
def test_stopped_and_continued_is_as_if_it_never_stopped(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stops: int
) -> None:
    run_plan = plan(("random", "gae"), ("auac", "agreement"))
    evaluate(loaded, sentences(14), run_plan, tmp_path / "whole", report=False)
    rows, turns = BatchEvaluation.rows, 0

    def stopping(self: BatchEvaluation, *arguments: Any) -> Any:
        nonlocal turns
        turns += 1
        if turns > stops:
            raise KeyboardInterrupt
        return rows(self, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(BatchEvaluation, "rows", stopping)
        with pytest.raises(KeyboardInterrupt):
            evaluate(loaded, sentences(14), run_plan, tmp_path / "cut", report=False)
    parts = tmp_path / "cut" / PARTS
    assert (
        len([*parts.iterdir()] if parts.is_dir() else []) == stops // 8
    )  # four samples by two methods
    assert not (tmp_path / "cut" / RESULTS).exists()
    evaluate(loaded, sentences(14), run_plan, tmp_path / "cut", report=False)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")
    parts = [sorted(p.name for p in (tmp_path / n / PARTS).iterdir()) for n in ("cut", "whole")]
    assert parts[0] == parts[1]


def test_another_metric_adds_to_what_is_there(
    loaded: Loaded, tmp_path: Path, calls: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = by_key(evaluate(loaded, sentences(9), plan(), tmp_path, report=False))
    measured: list[str] = []
    scores = BatchEvaluation._scores

    def watched(
        self: BatchEvaluation, attribution: Any, method: Any, target: str, spec: MetricSpec
    ) -> Any:
        measured.append(spec.label)
        return scores(self, attribution, method, target, spec)

    monkeypatch.setattr(BatchEvaluation, "_scores", watched)
    both = plan(metrics=("auac", "au_mse"))
    new = by_key(evaluate(loaded, sentences(9), both, tmp_path, report=False))
    assert set(measured) == {"au_mse"}
    assert len(new) == 2 * len(old)
    assert all(new[key] == row for key, row in old.items())


def test_another_method_adds_to_what_is_there(
    loaded: Loaded, tmp_path: Path, calls: Counter[str]
) -> None:
    first = plan(("random", "gae"), ("auac", "agreement"))
    old = by_key(evaluate(loaded, sentences(9), first, tmp_path, report=False))
    calls.clear()
    more = plan(("random", "gae", "lrp_ah_ln"), ("auac", "agreement"))
    new = by_key(evaluate(loaded, sentences(9), more, tmp_path, report=False))
    assert calls["lrp_ah_ln"] == 9
    # The old ones are explained once more, to be compared with the new one, and not measured.
    assert all(new[key] == row for key, row in old.items())
    calls.clear()
    fewer = by_key(evaluate(loaded, sentences(9), plan(("gae",)), tmp_path, report=False))
    assert not calls
    assert {key[1] for key in fewer} == {"gae"}


def test_a_larger_limit_adds_to_what_is_there(
    loaded: Loaded, tmp_path: Path, calls: Counter[str]
) -> None:
    old = by_key(evaluate(loaded, sentences(9), plan(), tmp_path, report=False))
    calls.clear()
    new = by_key(evaluate(loaded, sentences(14), plan(), tmp_path, report=False))
    assert calls == {"random": 5, "gae": 5}  # only those that are new, whichever batch they are in
    assert all(new[key] == row for key, row in old.items())
    before = files(tmp_path)
    # The same command once more gives the same bytes: no unit is stored in two versions.
    evaluate(loaded, sentences(14), plan(), tmp_path, report=False)
    assert files(tmp_path) == before
    again = by_key(evaluate(loaded, sentences(9), plan(), tmp_path, report=False))
    assert again == old


def test_another_model_shares_nothing(tmp_path: Path, calls: Counter[str]) -> None:
    first = evaluate(classifier(), sentences(4), plan(), tmp_path, report=False)
    other = evaluate(classifier(hidden_size=16), sentences(4), plan(), tmp_path, report=False)
    assert calls == {"random": 8, "gae": 8}
    assert [r["unit"] for r in first.rows] != [r["unit"] for r in other.rows]


def test_the_same_method_under_another_name(loaded: Loaded, tmp_path: Path) -> None:
    evaluate(loaded, sentences(4), plan(("gae",)), tmp_path, report=False)
    mine = Plan(
        (MethodSpec("mine", "gae"), MethodSpec("theirs", "gae", {"start_layer": 1})),
        (MetricSpec("area", "auac", {"special": "keep"}),),
    )
    results = evaluate(loaded, sentences(4), mine, tmp_path, report=False)
    assert results.methods == ("mine", "theirs")
    assert results.metrics == ("area",)


# -- errors ----------------------------------------------------------------------------------------


def test_a_damaged_part_is_computed_again(
    loaded: Loaded, tmp_path: Path, calls: Counter[str]
) -> None:
    evaluate(loaded, sentences(9), plan(), tmp_path, report=False)
    before = files(tmp_path)
    part = sorted((tmp_path / PARTS).iterdir())[0]
    content = part.read_bytes()
    part.write_bytes(content[:100])
    calls.clear()
    evaluate(loaded, sentences(9), plan(), tmp_path, report=False)
    assert calls["gae"] in (1, 4)  # the samples of that part alone
    assert files(tmp_path) == before
    assert part.read_bytes() == content


def test_a_full_disk_in_the_middle(
    loaded: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluate(loaded, sentences(9), plan(), tmp_path / "whole", report=False)
    written = Path.write_bytes
    times = 0

    def filling_up(path: Path, content: bytes) -> int:
        nonlocal times
        times += ".parquet" in path.name
        if times > 2:
            written(path, b"as far as it went")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return written(path, content)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", filling_up)
        with pytest.raises(
            StoreError, match=r"No space left on device.* 16 finished rows are kept"
        ):
            evaluate(loaded, sentences(9), plan(), tmp_path / "cut", report=False)
    assert len([*(tmp_path / "cut" / PARTS).iterdir()]) == 2
    evaluate(loaded, sentences(9), plan(), tmp_path / "cut", report=False)
    assert files(tmp_path / "cut") == files(tmp_path / "whole")


def pictures(folder: Path, count: int) -> Path:
    for i in range(count):
        place = folder / "val" / f"class{i % 3}"
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (12, 12), (20 * i, 255 - 20 * i, 99)).save(place / f"{i:02d}.png")
    return folder


def test_a_broken_image_is_listed_and_the_rest_completes(tmp_path: Path) -> None:
    loaded = Loaded(tiny_models()["vit"][1](), None, "tiny")
    pictures(tmp_path / "data", 10)
    broken = tmp_path / "data" / "val" / "class2" / "08.png"
    whole = broken.read_bytes()
    broken.write_bytes(whole[: len(whole) // 2])
    data = f"image_folder:{tmp_path / 'data'}"
    run_plan = plan(("random", "gae"))
    with pytest.warns(SkippedWarning, match=r"1 of 10 samples .*08.png' cannot be read"):
        results = evaluate(loaded, open_dataset(data), run_plan, tmp_path / "run")
    (failure,) = results.failures
    assert failure["sample"] == "val/class2/08"
    assert len({row["sample"] for row in results.rows}) == 9
    for file in ("table.md", "report.html", SETTINGS):
        assert "val/class2/08" in (tmp_path / "run" / file).read_text("utf-8")
    broken.write_bytes(whole)
    evaluate(loaded, open_dataset(data), run_plan, tmp_path / "run", report=False)
    evaluate(loaded, open_dataset(data), run_plan, tmp_path / "whole", report=False)
    assert files(tmp_path / "run") == files(tmp_path / "whole")


def test_a_file_that_is_gone_or_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = Loaded(tiny_models()["vit"][1](), None, "tiny")
    pictures(tmp_path / "data", 3)
    samples = [*open_dataset(f"image_folder:{tmp_path / 'data'}")]
    samples[2].inputs.unlink()
    with pytest.raises(
        InputError, match=r"class2/02': its file '.*02.png' cannot be read .*No such"
    ):
        evaluate(loaded, samples, plan(), tmp_path / "run")

    def forbidden(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(InputError, match=r"class0/00': its file '.*00.png' .*Permission denied"):
        evaluate(loaded, samples, plan(), tmp_path / "run")


def test_a_label_outside_the_classes_is_said_before_anything_is_done(
    loaded: Loaded, tmp_path: Path, calls: Counter[str]
) -> None:
    samples = [*sentences(9), Sample("far/<away>", "a good film and a bad plot and a film", 2)]
    with pytest.raises(InputError, match=r"sample 'far/<away>' is labelled 2.*2 classes, 0 to 1"):
        evaluate(loaded, samples, plan(), tmp_path)
    assert not calls
    assert not (tmp_path / PARTS).exists()


@pytest.mark.parametrize(
    "run_plan",
    [plan(targets=("predicted", "label")), plan(options={"auac": {"against": "label"}})],
)
def test_a_missing_label_is_said_before_anything_is_done(
    loaded: Loaded, tmp_path: Path, calls: Counter[str], run_plan: Plan
) -> None:
    samples = [*sentences(9), Sample("x", "a good film and a bad plot and a film")]
    with pytest.raises(InputError, match="sample 'x' has no label"):
        evaluate(loaded, samples, run_plan, tmp_path)
    assert not calls
    evaluate(loaded, samples, plan(), tmp_path, report=False)  # needs no labels


def test_labels_go_by_name(tmp_path: Path) -> None:
    file = tmp_path / "my.csv"
    file.write_text("text,label\na good film,0\nnot bad,1\n", encoding="utf-8")
    dataset = open_dataset(f"csv:{file},labels=positive|negative")
    results = evaluate(
        classifier(), dataset, plan(targets=("label",)), tmp_path / "run", names=dataset.labels
    )
    assert [row["label"] for row in results.rows[::2]] == [1, 0]
    assert [row["explained"] for row in results.rows[::2]] == [1, 0]


def test_nobody_to_evaluate_on(loaded: Loaded, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no samples"):
        evaluate(loaded, [], plan(), tmp_path)


def test_one_sample(loaded: Loaded, tmp_path: Path) -> None:
    results = evaluate(loaded, sentences(1), plan(SIGNED, TEXT_METRICS), tmp_path)
    assert len(results.rows) == 2 * len(TEXT_METRICS)
    assert (tmp_path / "report.html").is_file()


def test_one_word(loaded: Loaded, tmp_path: Path) -> None:
    samples = [Sample("one", "good"), Sample("none", "bad bad")]
    results = evaluate(loaded, samples, plan(SIGNED, TEXT_METRICS), tmp_path)
    assert all(row["value"] == row["value"] for row in results.rows)


def test_two_samples_of_one_id(loaded: Loaded, tmp_path: Path) -> None:
    samples = [*sentences(3), Sample("dev/1", "another text")]
    with pytest.raises(InputError, match="2 samples have the id 'dev/1'"):
        evaluate(loaded, samples, plan(), tmp_path)


def test_the_same_text_twice_is_two_samples(loaded: Loaded, tmp_path: Path) -> None:
    samples = [Sample("a", "a good film", 1), Sample("b", "a good film", 1)]
    results = evaluate(loaded, samples, plan(("gae",)), tmp_path)
    one, other = results.rows
    assert one["unit"] != other["unit"]
    assert one["value"] == pytest.approx(other["value"], abs=1e-6)


def test_hostile_ids_and_texts(loaded: Loaded, tmp_path: Path) -> None:
    names = [
        "../../x",
        "naïve/漢字 😀",
        "<script>alert(1)</script>",
        "a\nb",
        "[red]x[/red]",
        "'\"&",
        "",
    ]
    samples = [Sample(name, f"good <b>film</b> {name} 😀", 1) for name in names]
    results = evaluate(loaded, samples, plan(metrics=("auac", "agreement")), tmp_path / "run")
    assert [*dict.fromkeys(row["sample"] for row in results.rows)] == names
    assert [row["sample"] for row in Results.read(tmp_path / "run").rows[::6]] == names
    page = (tmp_path / "run" / "report.html").read_text("utf-8")
    assert "<script>alert(1)" not in page
    assert "<b>film</b>" not in page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run"]


@pytest.mark.parametrize(
    "sample", [Sample("val/a\udcff", "a good film"), Sample("x", "a \ud800 film")]
)
def test_what_is_no_text_at_all(loaded: Loaded, tmp_path: Path, sample: Sample) -> None:
    # How Python reads a file name that is not UTF-8, and half of a surrogate pair from JSON.
    with pytest.raises(InputError, match=r"not valid UTF-8"):
        evaluate(loaded, [*sentences(2), sample], plan(), tmp_path)


def test_pairs(loaded: Loaded, tmp_path: Path) -> None:
    samples = [
        Sample("a", ("a good film", "not bad"), 1),
        Sample("b", ("the plot is bad", "a film is not good and not bad"), 0),
        Sample("c", ("bad", "good"), 0),
    ]
    results = evaluate(loaded, samples, plan(("gae",)), tmp_path)
    for sample, row in zip(samples, results.rows, strict=True):
        encoded = loaded.processor(*sample.inputs, return_token_type_ids=True, return_tensors="pt")
        attribution = wf.explain(
            [sample.inputs], loaded.module, processor=loaded.processor, method="gae"
        )

        def rerun(kept: Mapping[str, Tensor], encoded: Any = encoded) -> Tensor:
            only = {name: value[:, kept["text"][0]] for name, value in encoded.items()}
            with torch.no_grad():
                logits: Tensor = loaded.module(**only).logits
            return logits

        score = metrics["auac"](attribution, rerun=rerun, special="keep")
        assert row["value"] == pytest.approx(float(score.values[0]), abs=2e-5)


def test_texts_longer_than_the_model(loaded: Loaded, tmp_path: Path) -> None:
    samples = [*sentences(5), Sample("long", "good film " * 40, 1)]
    with pytest.warns(SkippedWarning, match=r"1 of 6 .*'long'.*82 tokens, the model takes 40"):
        shorter = evaluate(loaded, samples, plan(), tmp_path, report=False)
    assert len(shorter.rows) == 5 * 2  # the shorter ones are done
    with pytest.raises(InputError, match=r"sample 'long': .*82 tokens, the model takes 40"):
        evaluate(loaded, samples[5:], plan(), tmp_path, report=False)
    results = evaluate(loaded, samples, plan(truncation=True), tmp_path)
    found = by_key(results)
    cut = evaluate(
        loaded, [Sample("long", "good film " * 19, 1)], plan(), tmp_path / "cut", report=False
    )
    for row in cut.rows:
        key = ("long", row["method"], "predicted", "auac")
        if row["method"] == "gae":  # "random" depends on the whole text
            assert found[key]["value"] == pytest.approx(row["value"], abs=1e-5)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("BertForTokenClassification", "a class per token"),
        ("BertForMaskedLM", "has no mask token"),
        ("BertModel", "has no head"),
    ],
)
def test_a_model_that_answers_otherwise_says_so(tmp_path: Path, name: str, why: str) -> None:
    module = getattr(transformers, name)(classifier().module.config).eval()
    with pytest.raises(WhyformerError, match=why):
        evaluate(Loaded(module, tokenizer(), "tiny"), sentences(3), plan(), tmp_path)


def test_images(tmp_path: Path) -> None:
    loaded = Loaded(tiny_models()["vit"][1](), None, "tiny")
    data = open_dataset(f"image_folder:{pictures(tmp_path / 'data', 7)}")
    run_plan = plan(("random", "gae"), ("perturbation_positive", "au_mse"), fill="mean")
    results = evaluate(loaded, data, run_plan, tmp_path / "run", names=data.labels)
    assert len(results.rows) == 7 * 2 * 2
    found = by_key(results)
    sample = next(iter(data))
    attribution = wf.explain([sample.inputs], loaded.module, method="gae")
    pixels = loaded_pixels(sample.inputs)

    def rerun(kept: Mapping[str, Tensor]) -> Tensor:
        inside = kept["image"].reshape(1, 1, 3, 3).repeat_interleave(4, 2).repeat_interleave(4, 3)
        mean = pixels.mean((2, 3), keepdim=True)
        with torch.no_grad():
            logits: Tensor = loaded.module(torch.where(inside, pixels, mean)).logits
        return logits

    score = metrics["au_mse"](attribution, rerun=rerun)
    row = found[sample.id, "gae", "predicted", "au_mse"]
    assert row["value"] == pytest.approx(float(score.values[0]), rel=1e-4, abs=1e-6)


def loaded_pixels(file: Path) -> Tensor:
    """The pixels of an image of the model's size, from -1 to 1."""
    values = numpy.asarray(Image.open(file).convert("RGB"), dtype=numpy.float32) / 127.5 - 1
    return torch.from_numpy(values).permute(2, 0, 1).unsqueeze(0)
