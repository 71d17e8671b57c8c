"""Plans: which methods and metrics names select, and which plans are refused."""

from __future__ import annotations

import pytest

from tests.evaluation.making import plan
from whyformer.errors import OptionError, UnknownNameError
from whyformer.evaluation.plan import MethodSpec, MetricSpec, Plan, method_specs, metric_specs
from whyformer.evaluation.units import EvaluatedModel, row_facts, unit_id
from whyformer.methods import methods
from whyformer.metrics import metrics


def test_all_is_every_method_but_the_slow_ones() -> None:
    every = [one.label for one in method_specs(["all"])]
    assert set(every) == {name for name, one in methods.items() if one.in_all}
    assert len(every) == len(set(every))
    both = [one.label for one in method_specs(["gae", "all", "attention_flow"])]
    assert both[0] == "gae"
    assert both[-1] == "attention_flow"
    assert set(both) == {*every, "attention_flow"}
    assert len(both) == len(set(both))


def test_those_that_draw_lots_get_the_seed() -> None:
    (one,) = method_specs(["random"], seed=7)
    assert one.options["seed"] == 7
    (one,) = method_specs(["random"], {"random": {"seed": 3}}, seed=7)
    assert one.options["seed"] == 3
    (one,) = method_specs(["gae"], seed=7)
    assert "seed" not in one.options


def test_special_tokens_stay_only_where_tokens_are_dropped() -> None:
    for fill, special in ((None, "keep"), ("drop", "keep"), ("mask", None), ("zero", None)):
        (one,) = metric_specs(["auac"], fill=fill)
        assert one.options.get("special") == special
    (one,) = metric_specs(["auac"], {"auac": {"special": "remove"}})
    assert one.options["special"] == "remove"
    (one,) = metric_specs(["conservation"])
    assert one.options == {}


def test_options_given_are_not_written_into() -> None:
    options = {"auac": {"steps": (0.0, 1.0)}}
    metric_specs(["auac"], options)
    assert options == {"auac": {"steps": (0.0, 1.0)}}


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (
            lambda: method_specs(["gae"], {"rollout": {}}),
            "method 'rollout', which is not evaluated",
        ),
        (lambda: metric_specs(["auac"], {"au_mse": {}}), "metric 'au_mse', which is not evaluated"),
        (lambda: metric_specs(["auac"], {"auac": {"specials": "keep"}}), "Did you mean 'special'"),
        (lambda: metric_specs(["auac"], {"auac": {"special": "none"}}), "expected one of 'keep'"),
        (lambda: plan(options={"gae": {"start": 1}}), "gae"),
        (lambda: plan(targets=("true",)), "Choose one of predicted, label"),
        (lambda: plan(fill="erase"), "fill='erase'.*Choose one of drop"),
        (lambda: plan(methods=("gae", "gae")), "method 'gae' is named twice"),
        (lambda: plan(metrics=("auac", "auac")), "metric 'auac' is named twice"),
        (lambda: plan(methods=()), "there is no method"),
        (lambda: plan(metrics=()), "there is no metric"),
        (
            lambda: Plan((MethodSpec("x", "gae"),), (MetricSpec("y", "auac", {"steps": 1}),)),
            "expected a tuple of floats",
        ),
    ],
)
def test_refusals(wrong: object, why: str) -> None:
    with pytest.raises(OptionError, match=why):
        wrong()  # type: ignore[operator]


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'gae'"):
        method_specs(["gea"])
    with pytest.raises(UnknownNameError, match="Did you mean 'auac'"):
        metric_specs(["aucc"])


def test_the_parts_of_a_metric_in_the_table() -> None:
    two = plan(metrics=("segmentation", "agreement", "auac"))
    by_name = {measure.label: [*row_facts(measure, two)] for measure in two.metrics}
    assert by_name["auac"] == ["auac"]
    assert by_name["agreement"] == ["agreement/random", "agreement/gae"]
    assert len(by_name["segmentation"]) == 5
    assert all(name.startswith("segmentation/") for name in by_name["segmentation"])
    one = plan(metrics=("segmentation",), options={"segmentation": {"measure": "miou"}})
    assert [*row_facts(one.metrics[0], one)] == ["segmentation"]
    assert set(metrics["segmentation"].options) >= {"measure"}


def test_all_that_decides_a_value_is_in_its_name() -> None:
    subject = EvaluatedModel(None, "model")  # type: ignore[arg-type]
    gae, random = method_specs(["gae", "random"])
    auac, mse = metric_specs(["auac", "au_mse"])
    base = plan()

    def name(s=subject, sample="s", c=gae, target="predicted", m=auac, p=base):  # type: ignore[no-untyped-def]
        return unit_id(s, sample, c, target, m.facts, p)

    names = [
        name(),
        name(s=EvaluatedModel(None, "other")),  # type: ignore[arg-type]
        name(sample="t"),
        name(c=random),
        name(c=MethodSpec("gae", "gae", {"start_layer": 1})),
        name(target="label"),
        name(m=mse),
        name(m=MetricSpec("auac", "auac", {"special": "remove"})),
        name(p=plan(fill="mask")),
        name(p=plan(seed=1)),
        name(p=plan(truncation=True)),
        name(p=plan(threads=2)),
        name(s=EvaluatedModel(None, "model", "cuda sdpa")),  # type: ignore[arg-type]
    ]
    assert len(set(names)) == len(names)
    # Its label and the rest of the plan do not change the id.
    assert name() == name(c=MethodSpec("mine", "gae"), p=plan(metrics=("au_mse",)))


def test_conservation_is_asked_only_of_scores_with_a_sign() -> None:
    run_plan = plan(("gae", "lrp_ah"), ("auac", "conservation"))
    labels = [[one.label for one in run_plan.metrics_for(method)] for method in run_plan.methods]
    assert labels == [["auac"], ["auac", "conservation"]]
    with pytest.raises(OptionError, match="conservation only applies to methods whose scores"):
        plan(("gae", "random"), ("conservation",))
