"""A planted winner, determinism, the time limit, and everything that `recommend` refuses."""

from __future__ import annotations

import inspect
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

import whyformer as wf
from tests.evaluation.making import classifier, sentences
from tests.recommend.making import reviews, trained
from whyformer.cli.recommend import recommend_command
from whyformer.datasets import Mask, Sample, open_dataset
from whyformer.errors import InputError, ModelError, OptionError, UnknownNameError
from whyformer.evaluation import Plan, evaluate, method_specs, metric_specs
from whyformer.evaluation.plan import MethodSpec, MetricSpec
from whyformer.models.load import Loaded
from whyformer.recommend.recommendation import Recommendation
from whyformer.recommend.run import RecommendOptions
from whyformer.workers import EngineOptions

FEW = ["random", "raw_attention", "attn_lrp", "gae"]


@pytest.fixture(scope="module")
def planted() -> Recommendation:
    return wf.recommend(trained(), reviews(64), methods=FEW)


# -- the race --------------------------------------------------------------------------------


def test_the_planted_winner_wins_and_random_is_dropped(planted: Recommendation) -> None:
    assert planted.method in ("attn_lrp", "gae")
    assert planted.rows[0].outcome == "recommended"
    lost = {row.label: row for row in planted.dropped}["random"]
    assert lost.reason == "significantly worse than the best"
    assert lost.round == 1
    assert lost.samples == 16
    assert lost.p < 0.05
    assert lost.behind > 0
    assert lost.behind_low > 0
    assert f"Use {planted.label}" in planted.sentence
    assert planted.measures == ("auac", "deletion")


def test_what_is_left_was_measured_on_all_samples_or_alone(planted: Recommendation) -> None:
    if len(planted.level) > 1:
        assert {row.samples for row in planted.level} == {64}
    else:
        assert planted.samples < 64 or planted.rounds == 3


def test_the_winner_of_the_race_is_that_of_the_full_run(planted: Recommendation) -> None:
    full = wf.recommend(trained(), reviews(64), methods=FEW, race=False)
    assert full.label == planted.label
    assert {row.samples for row in full.rows} == {64}
    assert full.rounds == 3
    assert "random" in [row.label for row in full.dropped]


def test_the_same_seed_gives_the_same_recommendation(planted: Recommendation) -> None:
    assert wf.recommend(trained(), reviews(64), methods=FEW) == planted
    other = wf.recommend(trained(), reviews(64), methods=FEW, seed=1)
    assert other.rows != planted.rows


def test_values_are_those_of_an_evaluation(tmp_path: Path) -> None:
    samples = [Sample(str(i), text) for i, text in enumerate(reviews(20))]
    found = wf.recommend(
        trained(), samples, methods=["gae", "random"], metrics=["auac"], race=False
    )
    plan = Plan(method_specs(["gae", "random"]), metric_specs(["auac"]))
    results = evaluate(trained(), samples, plan, tmp_path, report=False)
    for row in found.rows:
        values = [one["value"] for one in results.rows if one["method"] == row.label]
        assert row.values[0].value == pytest.approx(sum(values) / 20, abs=1e-6)


def test_variants_with_options_are_candidates_of_their_own() -> None:
    named = ["lrp_ah_ln", "lrp_ah_ln(activations=identity)", MethodSpec("mine", "gae", {})]
    found = wf.recommend(trained(), reviews(16), methods=named)
    assert {row.label for row in found.rows} == {*named[:2], "mine"}
    by_label = {row.label: row for row in found.rows}
    assert by_label["lrp_ah_ln(activations=identity)"].options == {"activations": "identity"}
    assert by_label["lrp_ah_ln(activations=identity)"].conserves is True
    assert by_label["mine"].conserves is None


def test_all_methods_by_default_slow_ones_only_if_named() -> None:
    found = wf.recommend(trained(), reviews(4), samples=2)
    labels = {row.label for row in found.rows}
    assert {"gae", "random", "lrp_ah_ln(activations=identity)"} <= labels
    assert "attention_flow" not in labels
    assert any("2 samples" in note for note in found.notes)
    named = wf.recommend(trained(), reviews(4), methods=["attention_flow", "gae"])
    assert {row.label for row in named.rows} == {"attention_flow", "gae"}


def test_a_tie_goes_to_the_method_that_conserves() -> None:
    """The same scores under two names: one method promises a sum, the other does not."""
    same = [MethodSpec("plain", "attn_lrp"), MethodSpec("again", "attn_lrp")]
    found = wf.recommend(trained(), reviews(16), methods=[*same, "gradient_x_input"])
    assert found.label == "plain"
    assert {"plain", "again"} <= {row.label for row in found.level}
    assert "level with it" in found.sentence


# -- limits ----------------------------------------------------------------------------------


def test_time_over_stops_with_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look at the clock is a second later."""
    from whyformer.recommend import race

    ticks = iter(range(10**6))
    monkeypatch.setattr(race.time, "monotonic", lambda: float(next(ticks)))
    twins = ["attn_lrp", MethodSpec("twin", "attn_lrp")]  # never dropped
    found = wf.recommend(trained(), reviews(64), methods=twins, seconds=12)
    assert 2 <= found.samples < 64
    assert len(found.level) == 2
    assert any("12 seconds" in note for note in found.notes)


def test_methods_without_time_are_named() -> None:
    found = wf.recommend(trained(), reviews(64), methods=FEW, seconds=1e-6)
    unmeasured = [row for row in found.rows if row.reason.startswith("not measured")]
    assert [row.label for row in unmeasured] == ["attn_lrp", "gae"]  # the cheapest ran first
    assert all(row.samples == 0 and math.isnan(row.behind) for row in unmeasured)
    assert any("2 methods could not be measured" in note for note in found.notes)


def test_by_default_a_recommendation_ends_well_before_two_minutes() -> None:
    """A batch may take longer than expected, and the page is drawn after the race."""
    command = inspect.signature(recommend_command).parameters["seconds"].default
    function = inspect.signature(wf.recommend).parameters["seconds"].default
    assert command == function == RecommendOptions().seconds <= 100


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), True])
def test_no_time_is_an_error(seconds: float) -> None:
    with pytest.raises(OptionError, match="seconds"):
        wf.recommend(trained(), reviews(4), seconds=seconds)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.own_process)])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # of Ray
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_two_workers_recommend_the_same(engine: str) -> None:
    """Rounds, drops and values, also of a method that cannot run."""
    if engine == "ray":
        pytest.importorskip("ray")
    twin = MethodSpec("twin", "attn_lrp")  # never dropped, so that there are more rounds
    named = [*FEW, twin, "rollout(start_layer=9)"]
    alone, both = (
        wf.recommend(trained(), reviews(48), methods=named, seconds=1000, engine=one)
        for one in (EngineOptions(), EngineOptions(engine, 2))
    )
    assert both == alone
    assert both.rounds == 3
    assert {row.round for row in both.dropped} >= {1}


# -- data ------------------------------------------------------------------------------------


def test_data_may_be_a_file_a_dataset_samples_or_inputs(tmp_path: Path) -> None:
    file = tmp_path / "my.csv"
    file.write_text("\n".join(["review", *reviews(6)]), encoding="utf-8")
    source = f"csv:{file},text=review"
    for data in (source, open_dataset(source), reviews(6), iter(reviews(6))):
        found = wf.recommend(trained(), data, methods=["random", "gae"])
        assert found.samples == 6
    assert wf.recommend(trained(), source, methods=["random", "gae"], samples=3).samples == 3


def test_pairs_and_images() -> None:
    pairs = [(text, "a film") for text in reviews(4)]
    assert wf.recommend(trained(), pairs, methods=["random", "gae"]).samples == 4
    generator = torch.Generator().manual_seed(0)
    pixels = (255 * torch.rand(4, 28, 28, generator=generator)).byte().numpy()
    found = wf.recommend(
        "mnist", [Image.fromarray(one) for one in pixels], methods=["random", "gae"]
    )
    assert found.samples == 4
    assert found.model == "mnist"


def test_without_a_model_the_bundled_one_that_fits() -> None:
    found = wf.recommend(None, ["a bad film", "a good film"], methods=["random", "gae"])
    assert found.model == "sst2"


def test_one_token_texts_are_skipped_and_counted() -> None:
    found = wf.recommend(trained(), ["good", *reviews(4), "bad"], methods=["random", "gae"])
    assert found.samples == 4
    assert "2 samples skipped: fewer than two tokens." in found.notes
    with pytest.raises(InputError, match="all 3 samples have fewer than two tokens"):
        wf.recommend(trained(), ["good", "bad", "film"], methods=["random", "gae"])
    with pytest.raises(InputError, match="one sample, which is too few"):
        wf.recommend(trained(), ["good", "bad film"], methods=["random", "gae"])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "there are no samples"),
        (["a good film"], "one sample, which is too few"),
        (None, "comes without samples"),
        (7, "expected a list of inputs"),
        ({"text": "a"}, "expected a list of inputs"),
        ("a good film", "names no dataset"),
        ("csv:nowhere.csv", "nowhere"),
    ],
)
def test_bad_data_is_named(data: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wf.recommend(trained(), data, methods=["random", "gae"])


def test_a_text_that_is_too_long_is_the_users_to_cut() -> None:
    long = " ".join(["good"] * 600)
    with pytest.raises(InputError, match=r"input 0|too long|tokens"):
        wf.recommend(trained(), [long, "a good film"], methods=["random", "gae"])
    found = wf.recommend(trained(), [long, "a film"], methods=["random", "gae"], truncation=True)
    assert found.samples == 2


# -- methods and metrics ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("methods", "error", "message"),
    [
        (["gae", "nonsense"], UnknownNameError, "nonsense"),
        (["gae", "rollout(nonsense=1)"], OptionError, "nonsense"),
        (["gae", "rollout(1)"], OptionError, "option=value"),
        (["gae", "gae"], OptionError, "named twice"),
        (["gae"], OptionError, "1 method to choose from"),
        ([], OptionError, "0 method"),
        ("gae", OptionError, "one text"),
        (["gae", 3], OptionError, "does not name a method"),
    ],
)
def test_bad_methods_are_named(methods: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wf.recommend(trained(), reviews(4), methods=methods)


@pytest.mark.parametrize(
    ("metrics", "error", "message"),
    [
        (["nonsense"], UnknownNameError, "nonsense"),
        (["agreement"], OptionError, "does not say which method is better"),
        ("auac", OptionError, "one text"),
        (["token_f1"], InputError, "has no rationale"),
        (["segmentation"], InputError, "has no mask"),
        ([MetricSpec("m", "perturbation_positive", {"against": "label"})], InputError, "no label"),
    ],
)
def test_bad_metrics_are_named(metrics: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wf.recommend(trained(), reviews(4), methods=["random", "gae"], metrics=metrics)


def test_labels_decide_if_a_metric_asks_for_them() -> None:
    spec = MetricSpec("label", "perturbation_positive", {"against": "label"})
    found = wf.recommend(trained(), sentences(8), methods=["random", "gae"], metrics=[spec])
    assert found.measures == ("label",)


def test_masks_decide_too() -> None:
    images, pixels = [], torch.zeros(28, 28, dtype=torch.uint8)
    for i in range(4):
        pixels[i : i + 6, :9] = 200
        mask = (pixels > 0).byte().numpy()
        images.append(
            Sample(str(i), Image.fromarray(pixels.numpy().copy()), extras={"mask": Mask(mask)})
        )
    found = wf.recommend("mnist", images, methods=["random", "gae"])
    assert found.measures == ("auac", "deletion", "segmentation/miou", "segmentation/map")


def test_a_metric_of_signs_drops_methods_without() -> None:
    found = wf.recommend(
        trained(), reviews(4), methods=["attn_lrp", "lrp_ah_ln", "gae"], metrics=["conservation"]
    )
    assert [(row.label, row.round) for row in found.dropped if not row.samples] == [("gae", 0)]
    assert "no sign" in found.dropped[-1].reason


def test_a_method_that_cannot_run_is_dropped_with_its_reason() -> None:
    found = wf.recommend(
        trained(), reviews(16), methods=["attn_lrp", "gae", "rollout(start_layer=9)"]
    )
    failed = next(row for row in found.dropped if row.method == "rollout")
    assert failed.reason.startswith("cannot run: ")
    assert "start_layer" in failed.reason
    assert failed.samples == 0
    assert any("1 method cannot explain this model" in note for note in found.notes)
    with pytest.raises(ModelError, match="none of 2 methods"):
        wf.recommend(
            trained(), reviews(4), methods=["rollout(start_layer=9)", "gae(start_layer=9)"]
        )


def test_a_model_without_classes_cannot_be_compared() -> None:
    from transformers import BertModel

    loaded = trained()
    module: Any = loaded.module
    bare = Loaded(BertModel(module.config).eval(), loaded.processor, "bare")
    with pytest.raises(ModelError, match="cannot be compared by removing tokens"):
        wf.recommend(bare, reviews(4), methods=["random", "gae"])


def test_no_method_better_than_random_is_said() -> None:
    found = wf.recommend(classifier(), reviews(8), methods=["random", "random(seed=7)"])
    assert found.sentence.startswith("No method is significantly better than random scores on 8")


# -- views -----------------------------------------------------------------------------------


def test_views_show_every_method_and_escape_what_users_wrote(
    planted: Recommendation, tmp_path: Path
) -> None:
    page = planted.to_html()
    text = planted.to_terminal()
    for row in planted.rows:
        assert row.label in page
        assert row.label in text
    assert planted.sentence.split(":")[0] in text
    assert planted.to_png()[:4] == b"\x89PNG"
    assert b"<svg" in planted.to_svg()
    assert json.loads(planted.to_json())["method"] == planted.method
    assert planted._repr_html_().startswith("<p>")
    assert planted.to_html(tmp_path / "a.html") is None
    assert (tmp_path / "a.html").read_text("utf-8") == page
    hostile = replace(planted, model="<b>&\x1b[31m", sentence="<script>")
    assert "<script>" not in hostile.to_html()
    assert "<b>" not in hostile.to_html()
    with pytest.raises(InputError, match="no folder"):
        planted.to_png(tmp_path / "none" / "a.png")


def test_dropped_methods_are_muted_in_the_chart(planted: Recommendation) -> None:
    from whyformer.recommend.views import interval_charts

    chart = interval_charts(planted)[0]
    points = {point.label: point for point in chart.points}
    assert points["random, round 1"].muted
    assert points[planted.label].clear
    assert chart.ends[0] > 0  # AUAC is far from 0, and the scale does not begin there
