"""One batch: what is computed once, and the errors when it cannot be computed."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import transformers
from PIL import Image

import whyformer as wf
from tests.evaluation.making import classifier, plan, sentences, tokenizer
from whyformer.datasets import Mask, Sample
from whyformer.errors import InputError
from whyformer.evaluation import batch_evaluation
from whyformer.evaluation.batch_evaluation import BatchEvaluation
from whyformer.evaluation.collation import inputs_of
from whyformer.evaluation.fingerprint import of_model, of_sample
from whyformer.evaluation.plan import Plan
from whyformer.evaluation.sample_batches import SampleBatch
from whyformer.evaluation.units import EvaluatedModel
from whyformer.metrics import metrics
from whyformer.models.families.tiny import tiny_model, tiny_models
from whyformer.models.load import Loaded
from whyformer.pipeline.explain_each import explain_each


def bench(
    loaded: Loaded, samples: list[Sample], run_plan: Plan, labels: Any = None
) -> BatchEvaluation:
    chunk = SampleBatch(
        tuple(samples),
        tuple(map(of_sample, samples)),
        tuple(labels or (sample.label for sample in samples)),
    )
    return BatchEvaluation(EvaluatedModel(loaded, of_model(loaded.module)), run_plan, chunk)


@pytest.fixture
def explain_calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """The methods and targets that `explain` was called with."""
    calls: list[tuple[str, Any]] = []

    def counted(inputs: Any, model: Any, asks: Any) -> Any:
        asks = list(asks)
        calls.extend((ask.method, ask.target) for ask in asks)
        return explain_each(inputs, model, asks)

    monkeypatch.setattr(batch_evaluation, "explain_each", counted)
    return calls


def test_one_explanation_serves_all_metrics(explain_calls: list[Any]) -> None:
    run_plan = plan(("gae", "random"), ("auac", "au_mse", "conservation", "agreement"))
    one = bench(classifier(), sentences(3), run_plan)
    rows = [
        row
        for method_spec in run_plan.methods
        for row in one.rows(method_spec, {"predicted": run_plan.metrics})
    ]
    assert explain_calls == [("gae", None), ("random", None)]
    assert len(rows) == 2 * 3 * (3 + 2)
    assert len({row["unit"] for row in rows}) == len(rows)


def test_labels_that_are_predicted_are_not_explained_again(explain_calls: list[Any]) -> None:
    loaded, samples = classifier(), sentences(3)
    run_plan = plan(("gae",), targets=("predicted", "label"))
    right = bench(loaded, samples, run_plan).predicted_classes
    one = bench(loaded, samples, run_plan, right)
    rows = one.rows(run_plan.methods[0], dict.fromkeys(run_plan.targets, run_plan.metrics))
    assert explain_calls == [("gae", None)]
    assert [row["explained"] for row in rows] == [*right, *right]
    wrong = [1 - right[0], *right[1:]]
    bench(loaded, samples, run_plan, wrong).attribution(run_plan.methods[0], "label")
    assert explain_calls[1:] == [("gae", wrong)]


def test_the_model_is_not_asked_twice_for_two_methods() -> None:
    run_plan = plan(("gae", "random"), ("auac",))
    one = bench(classifier(), sentences(3), run_plan)
    for method_spec in run_plan.methods:
        one.rows(method_spec, {"predicted": run_plan.metrics})
    # All tokens and no tokens are the same masks for both methods.
    assert one.rerun.forwards < 2 * 3 * 11


def test_rows_have_what_a_table_needs() -> None:
    run_plan = plan(("gae",), ("auac", "conservation"), fill="mask")
    (row, *_, last) = bench(classifier(), sentences(2), run_plan).rows(
        run_plan.methods[0], {"predicted": run_plan.metrics}
    )
    assert row["sample"] == "dev/0"
    assert row["convention"].endswith("removed tokens filled: mask")
    assert len(row["curve"]) == len(row["steps"]) == 11
    assert "filled" not in last["convention"]  # nothing is removed
    assert last["curve"] is None


def test_warnings_are_left_to_the_figures() -> None:
    run_plan = plan(("full_lrp", "attn_lrp", "gradient_x_input"), ("conservation",))
    one = bench(classifier(), sentences(2), run_plan)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for method_spec in run_plan.methods:
            one.rows(method_spec, {"predicted": run_plan.metrics})


# -- which sample is wrong -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sample", "why"),
    [
        (Sample("bad/<b>", ""), "sample 'bad/<b>': the text"),
        (Sample("bad/<b>", "  \t "), "sample 'bad/<b>': the text"),
        (Sample("bad/<b>", "good " * 50), "sample 'bad/<b>': .*52 tokens, the model takes 40"),
    ],
)
@pytest.mark.parametrize("metric", ["auac", "conservation"])
def test_a_sample_that_cannot_be_read_is_named(sample: Sample, why: str, metric: str) -> None:
    run_plan = plan(("gradient_x_input",), (metric,))
    one = bench(classifier(), [*sentences(2), sample], run_plan)
    with pytest.raises(InputError, match=why):
        one.rows(run_plan.methods[0], {"predicted": run_plan.metrics})


def test_an_image_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    Image.new("RGB", (12, 12)).save(tmp_path / "whole.png")
    data = (tmp_path / "whole.png").read_bytes()
    (tmp_path / "half.png").write_bytes(data[: len(data) // 2])
    samples = [Sample(name, tmp_path / f"{name}.png") for name in ("whole", "half")]
    run_plan = plan(("random",))
    one = bench(Loaded(tiny_models()["vit"][1](), None, "tiny"), samples, run_plan)
    with pytest.raises(InputError, match=r"sample 'half': the file .*half.png' cannot be read"):
        one.rows(run_plan.methods[0], {"predicted": run_plan.metrics})


def test_an_error_that_is_nobodys_stays_as_it_is() -> None:
    # GPT-2's classifier without a padding id takes one text at a time.
    module = tiny_model(
        "GPT2ForSequenceClassification", vocab_size=60, n_embd=8, n_layer=1, n_head=2
    )()
    run_plan = plan(("gradient_x_input",), ("conservation",))
    one = bench(Loaded(module, tokenizer(), "tiny"), sentences(2), run_plan)
    with pytest.raises(InputError, match=r"^GPT2ForSequenceClassification finds the last token"):
        one.attribution(run_plan.methods[0], "predicted")


def test_a_sample_without_a_label_is_named() -> None:
    run_plan = plan(targets=("label",))
    one = bench(classifier(), [*sentences(1), Sample("x", "a film")], run_plan, [1, None])
    with pytest.raises(InputError, match="sample 'x' has no label"):
        one.attribution(run_plan.methods[0], "label")


# -- streams ---------------------------------------------------------------------------------------


def test_masks_are_of_the_image_where_the_text_is_the_main_stream() -> None:
    module = tiny_models()["vilt"][1](vocab_size=len(tokenizer()))
    shape = numpy.zeros((12, 12), dtype=numpy.uint8)
    shape[:4] = 1
    image = Image.fromarray(shape * 255).convert("RGB")
    sample = Sample("x", {"text": "a good film", "image": image}, extras={"mask": Mask(shape)})
    processor = transformers.ViltImageProcessorPil(
        size={"shortest_edge": 12}, size_divisor=4, do_resize=False
    )

    class Both:
        def __init__(self) -> None:
            self.tokenizer, self.image_processor = tokenizer(), processor

    loaded = Loaded(module, Both(), "tiny")
    run_plan = plan(("gae",), ("pointing_game",), options={"pointing_game": {"tolerance": 0}})
    one = bench(loaded, [sample], run_plan)
    (row,) = one.rows(run_plan.methods[0], {"predicted": run_plan.metrics})
    attribution = one.attribution(run_plan.methods[0], "predicted")
    assert attribution.main == "text"
    assert "region of 'image'" in row["convention"]
    regions = torch.from_numpy(shape.astype(bool)).unsqueeze(0)
    by_hand = metrics["pointing_game"](attribution, regions=regions, stream="image", tolerance=0)
    assert row["value"] == float(by_hand.values[0])


def test_black_is_known_also_where_the_text_is_the_main_stream() -> None:
    module = tiny_models()["vilt"][1](vocab_size=len(tokenizer()))
    processor = transformers.ViltImageProcessorPil(
        do_resize=False, image_mean=[0.2] * 3, image_std=[0.3] * 3
    )

    class Both:
        def __init__(self) -> None:
            self.tokenizer, self.image_processor = tokenizer(), processor

    sample = Sample("x", {"text": "a good film", "image": Image.new("RGB", (12, 12), "white")})
    options = {"auac": {"stream": "image"}}
    run_plan = plan(("random",), ("auac",), fill="black", options=options)
    one = bench(Loaded(module, Both(), "tiny"), [sample], run_plan)
    (row,) = one.rows(run_plan.methods[0], {"predicted": run_plan.metrics})
    dark = sample.inputs | {"image": Image.new("RGB", (12, 12), "black")}
    both = processor(images=[dark["image"]], return_tensors="pt")
    ids = tokenizer()([dark["text"]], return_tensors="pt")
    with torch.no_grad():
        logits = module(**ids, pixel_values=both["pixel_values"]).logits
    probability = logits.softmax(1)[0, row["explained"]]
    assert row["curve"][0] == pytest.approx(float(probability), abs=1e-4)
    assert "filled: black" in row["convention"]


def test_regions_that_come_as_numbers() -> None:
    module = tiny_models()["lxmert"][1](vocab_size=len(tokenizer()))
    lots = numpy.random.default_rng(0)
    samples = [
        Sample(
            f"q{i}",
            {"text": text},
            extras={
                "features": lots.normal(size=(count, 12)).astype(numpy.float32),
                "boxes": lots.uniform(0, 50, size=(count, 4)).astype(numpy.float32),
                "size": (50, 100),
            },
        )
        for i, (text, count) in enumerate((("is the film good", 5), ("bad plot", 3)))
    ]
    loaded = Loaded(module, tokenizer(), "tiny")
    options = {"auac": {"stream": "image"}}
    run_plan = plan(("gae",), ("auac",), fill="mean", options=options)
    rows = bench(loaded, samples, run_plan).rows(
        run_plan.methods[0], {"predicted": run_plan.metrics}
    )
    for row, sample in zip(rows, samples, strict=True):
        (alone,) = bench(loaded, [sample], run_plan).rows(
            run_plan.methods[0], {"predicted": run_plan.metrics}
        )
        assert row["value"] == pytest.approx(alone["value"], abs=1e-5)
        assert row["curve"] == pytest.approx(alone["curve"], abs=1e-5)
    boxes = inputs_of(samples[:1], loaded)["visual_pos"]
    assert boxes[0, 0, 0] == pytest.approx(samples[0].extras["boxes"][0, 0] / 100)
    assert boxes[0, 0, 1] == pytest.approx(samples[0].extras["boxes"][0, 1] / 50)


def test_every_measure_at_the_cost_of_one() -> None:
    segmentation = metrics["segmentation"]
    inputs = {"pixel_values": torch.randn(2, 3, 12, 12)}
    attribution = wf.explain(inputs, tiny_models()["vit"][1](), method="random", target=0)
    masks = (torch.rand(2, 12, 12) < 0.4).long()
    each = segmentation.scores(attribution, masks=masks)
    assert set(each) == set(segmentation.kinds["measure"].__args__)
    for name, score in each.items():
        alone = segmentation(attribution, masks=masks, measure=name)
        assert torch.equal(score.values, alone.values)
        assert segmentation.scores(attribution, masks=masks, measure=name).keys() == {""}
    with pytest.raises(InputError, match="needs masks"):
        segmentation.scores(attribution)
    with pytest.raises(InputError, match="does not take labels"):
        segmentation.scores(attribution, masks=masks, labels=torch.zeros(2))
    with pytest.raises(wf.errors.OptionError, match="has no option 'measures'"):
        segmentation.scores(attribution, masks=masks, measures="miou")
