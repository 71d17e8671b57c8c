"""Properties that every metric in the registry must have."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import whyformer as wf
from tests.metrics.making import (
    Item,
    Linear,
    attribution_of,
    batch_of,
    image,
    item,
    needed,
    stream_of,
    text,
)
from whyformer.attribution import Attribution
from whyformer.errors import InputError, OptionError, WhyformerError
from whyformer.metrics import Metric, Score, combine_scores, metric
from whyformer.metrics.needs import NEEDS

METRICS = wf.metrics()
NAMES = sorted(METRICS)
RERUN = [name for name in NAMES if "rerun" in METRICS[name].needs]

every = pytest.mark.parametrize("name", NAMES)


def pictures(one: Metric) -> bool:
    return "masks" in one.needs or "regions" in one.needs


def inside(one: Metric, values: Tensor) -> bool:
    low, high = one.range
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    return bool(((values >= low - 1e-12) & (values <= high + 1e-12)).all())


def test_the_metrics_that_were_promised_are_there() -> None:
    assert set(NAMES) >= {
        "agreement",
        "au_mse",
        "auac",
        "comprehensiveness",
        "conservation",
        "perturbation_negative",
        "perturbation_positive",
        "pointing_game",
        "randomisation",
        "segmentation",
        "sufficiency",
        "token_f1",
    }


@every
def test_it_says_what_it_is(name: str) -> None:
    one = METRICS[name]
    assert one.name == name
    assert one.title
    assert one.paper
    assert one.convention.endswith(".")
    assert one.better in {"higher", "lower", "neither"}
    assert set(one.needs) <= NEEDS.keys() - {"keep"}
    one.check(one.options)


@every
def test_it_says_how_its_number_was_taken(name: str) -> None:
    one = METRICS[name]
    attribution, data = batch_of([item(0, 5, pictures(one))], pictures(one))
    score = one(attribution, **needed(one, data))
    assert score.convention
    assert score.values.shape == (1,)
    assert score.values.dtype == torch.float64
    if score.steps is not None:
        assert score.curve is not None
        assert score.curve.shape == (1, len(score.steps))


scores_of = st.lists(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-30, -1e-30, 1e30])
    | st.floats(-1e3, 1e3, allow_subnormal=False),
    min_size=1,
    max_size=7,
)


@every
@settings(max_examples=30, deadline=None)
@given(columns=st.lists(scores_of, min_size=1, max_size=3), seed=st.integers(0, 99))
def test_values_stay_in_the_declared_range(
    name: str, columns: list[list[float]], seed: int
) -> None:
    one, images = METRICS[name], pictures(METRICS[name])
    items = []
    for i, values in enumerate(columns):
        scores = torch.tensor(values, dtype=torch.float64)
        scores = torch.stack((scores, scores.flip(0))) if images else scores
        items.append(item(seed + i, len(values), images, scores))
    attribution, data = batch_of(items, images)
    score = one(attribution, **needed(one, data))
    assert score.values.isfinite().all()
    assert inside(one, score.values)
    assert inside(one, torch.tensor([score.mean])) or math.isnan(score.mean)


# Options that lead through other code than the defaults; True: over images.
WAYS: list[tuple[str, bool, dict[str, Any]]] = [
    *((name, pictures(METRICS[name]), {}) for name in NAMES),
    ("agreement", False, {"rank": "kendall"}),
    ("agreement", True, {"absolute": True}),
    ("au_mse", False, {"order": "signed", "error": "mean"}),
    ("auac", True, {"measure": "logit"}),
    ("perturbation_negative", True, {"measure": "probability"}),
    ("perturbation_positive", True, {"measure": "probability"}),
    ("pointing_game", False, {}),
    ("pointing_game", True, {"tolerance": 0}),
    ("segmentation", True, {"measure": "map"}),
    ("segmentation", True, {"measure": "map_foreground"}),
    ("segmentation", True, {"measure": "miou"}),
    ("token_f1", False, {"level": "token", "k": (1, 2, 4)}),
    ("token_f1", False, {"k": (1, 2), "pool": "sum"}),
]
each_way = pytest.mark.parametrize(("name", "images", "options"), WAYS)


@each_way
@pytest.mark.parametrize("seed", range(5))
def test_a_batch_is_its_samples(
    name: str, images: bool, options: dict[str, Any], seed: int
) -> None:
    items = [item(10 * seed + i, tokens, images) for i, tokens in enumerate((5, 1, 12, 2))]
    together = scored(METRICS[name], items, images, **options)
    alone = combine_scores([scored(METRICS[name], [each], images, **options) for each in items])
    same(together, alone)
    for part in together.parts:
        torch.testing.assert_close(together.parts[part], alone.parts[part])


@each_way
@pytest.mark.parametrize("garbage", [0.0, 1e6, -1e6])
@pytest.mark.parametrize("seed", range(3))
def test_padding_changes_nothing(
    name: str, images: bool, options: dict[str, Any], seed: int, garbage: float
) -> None:
    items = [item(10 * seed + i, tokens, images) for i, tokens in enumerate((5, 3, 1, 9))]
    plain = combine_scores([scored(METRICS[name], [each], images, **options) for each in items])
    same(scored(METRICS[name], items, images, extra=4, garbage=garbage, **options), plain)


def same(one: Score, other: Score) -> None:
    torch.testing.assert_close(one.values, other.values)
    assert one.mean == pytest.approx(other.mean, nan_ok=True)
    if one.curve is not None:
        torch.testing.assert_close(one.curve, other.curve)


def scored(
    one: Metric,
    items: list[Item],
    images: bool,
    extra: int = 0,
    garbage: float = 1e6,
    **options: Any,
) -> Score:
    attribution, data = batch_of(items, images, extra, garbage)
    return one(attribution, **needed(one, data), **options)


@every
@pytest.mark.parametrize("fill", [0.0, 0.1, -3.0])
@pytest.mark.parametrize("tokens", [1, 2, 6])
def test_flat_scores_give_a_number(name: str, fill: float, tokens: int) -> None:
    one, images = METRICS[name], pictures(METRICS[name])
    flat = torch.full((tokens * (2 if images else 1),), fill)
    score = scored(one, [item(3, tokens, images, flat)], images)
    assert score.values.isfinite().all()
    assert inside(one, score.values)


@every
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_other_precisions_run(name: str, kind: torch.dtype) -> None:
    one, images = METRICS[name], pictures(METRICS[name])
    attribution, data = batch_of([item(0, 5, images), item(1, 3, images)], images)
    # A batch in low precision, as a model of that precision gives it.
    low = {
        n: stream_of(s.scores, s.mask, n, grid=s.grid, word_ids=s.word_ids)
        for n, s in attribution.streams.items()
    }
    for stream in low.values():
        object.__setattr__(stream, "scores", stream.scores.to(kind))
    score = one(attribution_of(*low.values()), **needed(one, data))
    assert score.values.isfinite().all()
    assert score.values.dtype == torch.float64


@every
def test_scores_that_are_not_numbers_are_refused(name: str) -> None:
    one, images = METRICS[name], pictures(METRICS[name])
    scores = torch.tensor([1.0, math.nan, 2.0, 0.0])
    with pytest.raises(InputError, match="not finite"):
        scored(one, [item(0, 4, images, scores.repeat(2) if images else scores)], images)


@pytest.mark.parametrize("name", RERUN)
@pytest.mark.parametrize("seed", range(3))
def test_perfect_beats_random_beats_adversarial(name: str, seed: int) -> None:
    one = METRICS[name]
    generator = torch.Generator().manual_seed(seed)
    weights = torch.randn(200, 12, generator=generator).double()
    weights = weights * weights.sum(1, keepdim=True).sign()  # class 0 is the answer to all
    rerun = Linear(torch.stack((weights, torch.zeros_like(weights)), 2))
    chance = torch.rand(200, 12, generator=generator).double()
    opposite = 1 / weights.abs() if name == "au_mse" else -weights
    perfect, random, adversarial = (
        one(text(scores), rerun=rerun).mean for scores in (weights, chance, opposite)
    )
    if one.better == "lower":
        perfect, random, adversarial = -perfect, -random, -adversarial
    assert perfect > random + 0.01
    assert random > adversarial + 0.01


@pytest.mark.parametrize("name", RERUN)
def test_ties_go_by_position(name: str) -> None:
    """Equal scores are as good as scores that fall with the position."""
    one = METRICS[name]
    weights = torch.randn(4, 6, 3, generator=torch.Generator().manual_seed(0))
    falling = torch.arange(6, 0, -1.0).expand(4, 6)
    if name in {"au_mse", "perturbation_negative"}:  # the least relevant goes first
        falling = falling.flip(1)
    tied = one(text(torch.zeros(4, 6)), rerun=Linear(weights))
    assert tied.curve is not None
    torch.testing.assert_close(tied.curve, one(text(falling), rerun=Linear(weights)).curve)


@pytest.mark.parametrize("name", RERUN)
def test_nothing_that_is_kept_is_taken_away(name: str) -> None:
    one = METRICS[name]
    keep = torch.tensor([[True, False, False, False, True]])
    rerun = Linear(torch.randn(1, 5, 2, generator=torch.Generator().manual_seed(0)))
    one(text([[5.0, 1.0, 2.0, 3.0, -5.0]]), rerun=rerun, keep=keep)
    assert len(rerun.calls) > 3
    assert all(call["text"][keep].all() for call in rerun.calls)
    assert not all(call["text"].all() for call in rerun.calls)


@pytest.mark.parametrize("name", RERUN)
def test_special_tokens_and_padding(name: str) -> None:
    """Padding is never kept; [CLS] and [SEP] are kept if the option says so."""
    one = METRICS[name]
    attribution, _ = batch_of([item(0, 6), item(1, 4)])
    special = torch.tensor([[1, 0, 0, 0, 0, 1], [1, 0, 0, 1, 0, 0]]).bool()
    mask = attribution.streams["text"].mask
    for choice in ("keep", "remove"):
        rerun = Linear(torch.zeros(2, 6, 2))
        one(attribution, rerun=rerun, special=choice)
        masks = torch.stack([each["text"] for each in rerun.calls])
        assert not masks[:, ~mask].any()
        assert bool(masks[:, special].all()) == (choice == "keep")


@pytest.mark.parametrize("name", RERUN)
def test_only_the_stream_that_was_asked_for_is_touched(name: str) -> None:
    pair = attribution_of(
        stream_of([[1.0, 2.0]]), stream_of([[1.0, 2.0, 3.0, 4.0]], name="image", grid=(2, 2))
    )
    rerun = Linear(torch.zeros(1, 4, 2))
    score = METRICS[name](pair, rerun=rerun, stream="image")
    assert {tuple(call) for call in rerun.calls} == {("image",)}
    assert "'image'" in score.convention
    with pytest.raises(InputError, match="there is no stream 'audio'"):
        METRICS[name](pair, rerun=rerun, stream="audio")


def test_an_unknown_option_is_refused_with_those_there_are() -> None:
    attribution, rerun = text([[1.0]]), Linear(torch.zeros(1, 1, 2))
    with pytest.raises(OptionError, match=r"no option 'step'. Did you mean 'steps'\?.*against="):
        METRICS["auac"](attribution, rerun=rerun, step=(0.5,))
    with pytest.raises(OptionError, match="expected one of 'probability', 'logit'"):
        METRICS["auac"](attribution, rerun=rerun, measure="accuracy")
    with pytest.raises(OptionError, match="expected a tuple of floats"):
        METRICS["auac"](attribution, rerun=rerun, steps=0.5)
    with pytest.raises(OptionError, match="expected a bool"):
        METRICS["agreement"](attribution, other=attribution, absolute=1)
    METRICS["auac"](attribution, rerun=rerun, steps=[0, 1])


@pytest.mark.parametrize("steps", [(), (0.5, 0.5), (0.5, 0.1), (-0.1, 0.5), (0.5, 1.1)])
def test_steps_rise_from_0_to_1(steps: tuple[float, ...]) -> None:
    rerun = Linear(torch.zeros(1, 1, 2))
    for name, option in (("auac", "steps"), ("au_mse", "steps"), ("sufficiency", "bins")):
        with pytest.raises(OptionError, match="rising shares"):
            METRICS[name](text([[1.0]]), rerun=rerun, **{option: steps})
    with pytest.raises(OptionError, match="rising shares"):
        METRICS["perturbation_positive"](text([[1.0]]), rerun=rerun, steps=steps)


def test_missing_and_unknown_arguments_are_named() -> None:
    with pytest.raises(InputError, match="'auac' needs rerun"):
        METRICS["auac"](text([[1.0]]))
    with pytest.raises(InputError, match="does not take masks; it takes rerun, labels, keep"):
        METRICS["auac"](text([[1.0]]), rerun=Linear(torch.zeros(1, 1, 2)), masks=torch.zeros(1))


@pytest.mark.parametrize("name", [name for name in RERUN if "labels" in METRICS[name].accepts])
def test_the_class_that_is_followed(name: str) -> None:
    """Three classes: 0 explained, 1 predicted, 2 the truth; each gives a different curve."""
    one = METRICS[name]
    weights = torch.tensor([[[0.3, 2.0, 0.9], [0.1, 1.0, -0.9], [0.2, 0.5, 0.1]]])
    attribution, labels = text([[3.0, 2.0, 1.0]]), torch.tensor([2])
    found = {}
    for against in ("predicted", "target", "label"):
        score = one(attribution, rerun=Linear(weights), labels=labels, against=against)
        assert f"{against} class" in score.convention
        # The same curve as when the class is the explained one of another attribution.
        number = {"predicted": 1, "target": 0, "label": 2}[against]
        same = attribution_of(stream_of([[3.0, 2.0, 1.0]]), target=number)
        torch.testing.assert_close(
            score.curve, one(same, rerun=Linear(weights), against="target").curve
        )
        found[against] = score.parts.get("probability", score.curve)
    assert not torch.allclose(found["predicted"], found["target"])
    assert not torch.allclose(found["label"], found["target"])
    with pytest.raises(InputError, match="needs labels"):
        one(attribution, rerun=Linear(weights), against="label")
    with pytest.raises(InputError, match="class 7 is not one of the model's 3"):
        one(attribution, rerun=Linear(weights), labels=torch.tensor([7]), against="label")
    callable_target = attribution_of(stream_of([[3.0, 2.0, 1.0]]), target=-1)
    with pytest.raises(InputError, match="use against='predicted'"):
        one(callable_target, rerun=Linear(weights), against="target")


@pytest.mark.parametrize("wrong", [torch.zeros(3), torch.zeros(2, 2), torch.full((1, 2), math.nan)])
def test_a_rerun_that_gives_no_logits_is_refused(wrong: Tensor) -> None:
    with pytest.raises(InputError, match="rerun gave"):
        METRICS["auac"](text([[1.0]]), rerun=lambda kept: wrong)


def test_a_metric_that_asks_for_the_unknown_cannot_register() -> None:
    def compute(attribution: Attribution, weather: Tensor) -> Score:
        return Score(attribution.output)

    with pytest.raises(ValueError, match="weather"):
        metric("x", title="x", paper="x", better="higher", range=(0, 1), convention="x")(compute)
    assert "x" not in wf.metrics()


def test_an_unknown_metric_is_refused() -> None:
    from whyformer.metrics import metrics

    with pytest.raises(WhyformerError, match="Did you mean 'auac'"):
        metrics["aucac"]


def test_a_score_travels() -> None:
    score = METRICS["segmentation"](image([[[1.0, 0.0]]]), masks=torch.tensor([[[1, 0]]]))
    back = pickle.loads(pickle.dumps(score))
    assert back.mean == score.mean
    assert back.parts.keys() == score.parts.keys()
