"""Odd inputs of models with several streams: right results, or an error that says what to do."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.several import FILLS, SEVERAL, WITHOUT_MAPS, only, target_of
from whyformer.errors import InputError, OptionError, TargetError, WhyformerError
from whyformer.models.families import families
from whyformer.models.families.bart import SIZES as BART
from whyformer.models.families.t5 import SIZES as T5
from whyformer.models.families.tiny import tiny_inputs, tiny_model, tiny_models

METHODS = ("lrp_ah_ln", "attn_lrp", "gae", "rollout", "transformer_attribution")
every_method = pytest.mark.parametrize("method", METHODS)
Inputs = dict[str, Tensor]


@cache
def model_of(name: str) -> Any:
    return tiny_models()[name][1]().double()


def lxmert(tokens: int, regions: int, batch: int = 1) -> Inputs:
    generator = torch.Generator().manual_seed(10 * tokens + regions)
    return {
        "input_ids": torch.randint(5, 59, (batch, tokens), generator=generator),
        "visual_feats": torch.randn(batch, regions, 12, generator=generator).double(),
        "visual_pos": torch.rand(batch, regions, 4, generator=generator).double(),
    }


def pixels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).double()


def assert_same(found: wf.Attribution, expected: wf.Attribution) -> None:
    assert found.streams.keys() == expected.streams.keys()
    torch.testing.assert_close(found.output, expected.output)
    for name, stream in found.streams.items():
        theirs = expected.streams[name].scores
        assert stream.scores.isfinite().all()
        atol = 1e-7 * float(theirs.abs().max())
        torch.testing.assert_close(stream.scores, theirs, rtol=0, atol=atol)


# -- shapes ----------------------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("shape", [(6, 6), (2, 5), (5, 1), (2, 1), (1, 1)], ids=str)
def test_as_many_tokens_as_regions_and_hardly_any(shape: tuple[int, int], method: str) -> None:
    """What tells streams apart is never their number."""
    model, inputs = model_of("lxmert"), lxmert(*shape)
    a = wf.explain(inputs, model, method=method, target=1)
    assert {n: s.scores.shape for n, s in a.streams.items()} == {
        "text": (1, shape[0]),
        "image": (1, shape[1]),
    }
    assert all(s.scores.isfinite().all() for s in a.streams.values())
    torch.testing.assert_close(a.output[0], model(**inputs).question_answering_score[0, 1].detach())
    if method == "gae":
        assert a.maps["text", "image"].shape == (1, *shape)
        assert a.streams["image"].scores.any() or shape[1] == 1


@every_method
def test_three_samples_of_other_lengths_in_both_streams(method: str) -> None:
    """The longest text has the fewest regions; each sample has a class of its own."""
    model = model_of("lxmert")
    counts, classes = [(7, 2), (3, 6), (2, 4)], [1, 3, 0]
    batch: Inputs = {}
    singles = [lxmert(*count) for count in counts]
    for name in singles[0]:
        most = max(one[name].shape[1] for one in singles)
        rows = []
        for one in singles:
            value = one[name][0]
            rows.append(torch.cat([value, value.new_zeros(most - len(value), *value.shape[1:])]))
        batch[name] = torch.stack(rows)
    batch["attention_mask"] = torch.tensor([[1] * t + [0] * (7 - t) for t, _ in counts])
    batch["visual_attention_mask"] = torch.tensor([[1] * r + [0] * (6 - r) for _, r in counts])
    together = wf.explain(batch, model, method=method, target=classes)
    assert together.target.tolist() == classes
    for i, (single, c) in enumerate(zip(singles, classes, strict=True)):
        assert_same(together[i], wf.explain(single, model, method=method, target=c))
        assert together[i].streams["text"].scores.shape == (1, counts[i][0])
        assert together[i].streams["image"].scores.shape == (1, counts[i][1])
        for pair, relevancy in together[i].maps.items():
            sizes = {"text": counts[i][0], "image": counts[i][1]}
            assert relevancy.shape == (1, sizes[pair[0]], sizes[pair[1]])


@every_method
def test_one_layer_of_each(method: str) -> None:
    model = families["lxmert"].tiny(l_layers=1, r_layers=1, x_layers=1).double()
    a = wf.explain(lxmert(5, 4), model, method=method, target=1)
    assert a.scores.any()
    assert a.streams["image"].scores.any()


@every_method
@pytest.mark.parametrize("shape", [(16, 24), (32, 16), (20, 28)], ids=str)
def test_an_image_that_is_not_square(shape: tuple[int, int], method: str) -> None:
    """DETR's feature map has the image's form."""
    model = model_of("detr")
    a = wf.explain(
        {"pixel_values": pixels(1, 3, *shape)}, model, method=method, target=wf.query(1, 1)
    )
    image = a.streams["image"]
    assert image.grid is not None
    assert image.scores.shape == (1, image.grid[0] * image.grid[1])
    assert (image.grid[0] > image.grid[1]) == (shape[0] > shape[1])
    assert image.score_map.shape == (1, *image.grid)


@every_method
def test_pixels_of_padding_get_nothing(method: str) -> None:
    """DETR: the right half of the second image is padding."""
    model = model_of("detr")
    images = pixels(2, 3, 32, 32)
    mask = torch.ones(2, 32, 32, dtype=torch.long)
    images[1, :, :, 16:], mask[1, :, 16:] = 0, 0
    given = {"pixel_values": images, "pixel_mask": mask}
    a = wf.explain(given, model, method=method, target=wf.query(1, 1))
    image = a.streams["image"]
    assert image.grid is not None
    rows, columns = image.grid
    real = image.mask[1].reshape(rows, columns)
    assert real[:, : columns // 2].all()
    assert not real[:, columns // 2 :].any()
    assert not image.scores[1][~image.mask[1]].any()
    assert image.scores[1].any()
    expected = model(**given).logits[:, 1, 1].detach()
    torch.testing.assert_close(a.output, expected)
    alone = {name: value[1:] for name, value in given.items()}
    one = wf.explain(alone, model, method=method, target=wf.query(1, 1))
    assert_same(one[0], wf.explain(given, model, method=method, target=wf.query(1, 1))[1])


@every_method
def test_vilt_without_patches_of_padding(method: str) -> None:
    """The model drops patches of padding: masked or not in a batch, an image keeps its numbers."""
    model = model_of("vilt")
    inputs = tiny_inputs(model, (5, 5))
    mask = torch.ones(2, 12, 12, dtype=torch.long)
    mask[1, 8:] = 0
    both = {**inputs, "pixel_mask": mask}
    a = wf.explain(both, model, method=method, target=1)
    full = wf.explain({k: v[:1] for k, v in inputs.items()}, model, method=method, target=1)
    assert_same(a[0], full)
    alone = wf.explain({k: v[1:] for k, v in both.items()}, model, method=method, target=1)
    assert_same(a[1], alone)
    assert a[1].streams["image"].scores.shape == (1, 6)
    # What is under the mask is never looked at.
    changed = {**both, "pixel_values": both["pixel_values"].clone()}
    changed["pixel_values"][1, :, 8:] = 7
    assert_same(wf.explain(changed, model, method=method, target=1), a)


@pytest.mark.parametrize("shape", [(12, 12), (16, 12), (8, 20)], ids=str)
def test_yolos_has_the_grid_of_its_image(shape: tuple[int, int]) -> None:
    model = families["yolos"].tiny(image_size=list(shape)).double()
    a = wf.explain({"pixel_values": pixels(1, 3, *shape)}, model, target=wf.query(0, 1))
    assert a.streams["image"].grid == (shape[0] // 4, shape[1] // 4)
    assert a.streams["queries"].scores.shape == (1, 4)


@pytest.mark.parametrize("name", ["clip", "siglip", "blip_matching"])
def test_one_image_with_several_texts(name: str) -> None:
    """One goes with all: as if it had been repeated."""
    model = model_of(name)
    inputs = tiny_inputs(model, (6, 6, 6))
    repeated = {**inputs, "pixel_values": inputs["pixel_values"][:1].expand(3, -1, -1, -1)}
    for method in ("gae", "attn_lrp"):
        shared = {**inputs, "pixel_values": inputs["pixel_values"][:1]}
        a = wf.explain(shared, model, method=method, target=target_of(name))
        assert len(a) == 3
        assert_same(a, wf.explain(repeated, model, method=method, target=target_of(name)))
    one = {**inputs, "input_ids": inputs["input_ids"][:1]}
    one["attention_mask"] = inputs["attention_mask"][:1]
    assert len(wf.explain(one, model, method="gae", target=target_of(name))) == 3


@every_method
def test_three_streams(method: str) -> None:
    """BLIP answers: the answer asks the question, the question asks the image."""
    model = model_of("blip_answering")
    a = wf.explain(tiny_inputs(model, (6, 6)), model, method=method, target=1)
    assert list(a.streams) == ["text", "image", "generated"]
    assert all(s.scores.any() for s in a.streams.values())
    if method in ("gae", "rollout", "transformer_attribution"):
        pairs = [("generated", "text"), ("text", "image"), ("generated", "image")]
        assert all(a.maps[pair].any() for pair in pairs), "nothing came from the image"


@every_method
@pytest.mark.parametrize(
    "model",
    [
        pytest.param(tiny_model("MT5ForConditionalGeneration", **T5), id="mt5"),
        pytest.param(tiny_model("MBartForConditionalGeneration", **BART), id="mbart"),
    ],
)
def test_the_other_models_of_a_family(model: Any, method: str) -> None:
    net = model().double()
    a = wf.explain(tiny_inputs(net), net, method=method, target=1)
    assert all(s.scores[i].any() for s in a.streams.values() for i in range(2))
    if method == "attn_lrp":
        total = sum(s.scores.sum(1) for s in a.streams.values()) + sum(a.sinks.values())
        torch.testing.assert_close(total, a.output)


@every_method
@pytest.mark.parametrize("base", ["BartModel", "MBartModel", "MarianModel", "T5Model"])
def test_an_encoder_decoder_without_a_head(base: str, method: str) -> None:
    """Its target is a callable; with no output text it reads the start token alone."""
    net = tiny_model(base, **(T5 if base == "T5Model" else BART))().double()

    def first_number(output: Any) -> Tensor:
        states: Tensor = output.last_hidden_state
        return states[:, -1, 3]

    for inputs in (tiny_inputs(net, (6,)), {"input_ids": torch.arange(5, 11).unsqueeze(0)}):
        a = wf.explain(inputs, net, method=method, target=first_number)
        assert a.streams["source"].scores.any()
        if method == "attn_lrp":
            total = sum(s.scores.sum(1) for s in a.streams.values()) + sum(a.sinks.values())
            torch.testing.assert_close(total, a.output)
    with pytest.raises(TargetError, match="has no head"):
        wf.explain(tiny_inputs(net), net, method=method, target=1)


@pytest.mark.parametrize("name", ["t5", "bart", "marian", "blip_captioning", "vision_gpt2"])
def test_every_token_of_a_generated_text_can_be_asked(name: str) -> None:
    """A token that speaks earlier is not told by what comes later."""
    model = model_of(name)
    inputs = tiny_inputs(model, (8,))
    carrier = "decoder_input_ids" if "decoder_input_ids" in inputs else "input_ids"
    mask = carrier.replace("input_ids", "attention_mask")
    for position in range(inputs[carrier].shape[1]):
        a = wf.explain(inputs, model, method="gae", target=wf.token(position, 7))
        assert not a.streams["generated"].scores[0, position + 1 :].any()
        short = {**inputs, carrier: inputs[carrier][:, : position + 1]}
        short[mask] = inputs[mask][:, : position + 1]
        last = wf.explain(short, model, method="gae", target=7)
        torch.testing.assert_close(a.output, last.output)
        main = a.streams[a.main].scores
        torch.testing.assert_close(main, last.streams[a.main].scores, rtol=1e-6, atol=1e-9)


# -- targets, deciding, keep -----------------------------------------------------------------------


@every_method
def test_targets_per_sample_contrasts_and_callables(method: str) -> None:
    model = model_of("lxmert")
    inputs = lxmert(5, 4, batch=2)
    scores = model(**inputs).question_answering_score.detach()

    def value(target: Any) -> Tensor:
        return wf.explain(inputs, model, method=method, target=target).output

    torch.testing.assert_close(value([2, 4]), scores[[0, 1], [2, 4]])
    torch.testing.assert_close(value(torch.tensor([0, 3])), scores[[0, 1], [0, 3]])
    torch.testing.assert_close(value(wf.contrast(1, 2)), scores[:, 1] - scores[:, 2])
    torch.testing.assert_close(value(None), scores.amax(1))
    one = wf.explain(inputs, model, method=method, target=3)
    called = wf.explain(
        inputs, model, method=method, target=lambda output: output.question_answering_score[:, 3]
    )
    assert_same(called, one)
    assert called.target.tolist() == [-1, -1]


@pytest.mark.parametrize("name", ["detr", "yolos"])
def test_a_box_and_the_difference_of_two_objects(name: str) -> None:
    model = model_of(name)
    inputs = tiny_inputs(model, (5,))
    output = model(**inputs)
    logits, boxes = output.logits.detach(), output.pred_boxes.detach()
    side = wf.explain(inputs, model, target=wf.query(2, "width"))
    torch.testing.assert_close(side.output[0], boxes[0, 2, 2])
    between = wf.explain(inputs, model, target=wf.contrast(wf.query(0, 1), wf.query(2, 1)))
    torch.testing.assert_close(between.output[0], logits[0, 0, 1] - logits[0, 2, 1])
    called = wf.explain(inputs, model, target=lambda o: o.pred_boxes[:, 2, 2])
    torch.testing.assert_close(called.scores, side.scores)


@pytest.mark.parametrize("deciding", ["first", "last", "mean", 1])
def test_the_deciding_token_can_be_named(deciding: Any) -> None:
    model, inputs = model_of("lxmert"), lxmert(5, 4)
    usual = wf.explain(inputs, model, method="gae", target=1)
    named = wf.explain(inputs, model, method="gae", target=1, deciding=deciding)
    maps = {k: v[0] for k, v in usual.maps.items()}
    row = {"first": 0, "last": 4, "mean": slice(None), 1: 1}[deciding]
    for stream in ("text", "image"):
        expected = maps["text", stream][row]
        expected = expected.mean(0) if deciding == "mean" else expected
        torch.testing.assert_close(named.streams[stream].scores[0], expected)


def test_a_deciding_token_that_there_is_not() -> None:
    with pytest.raises(OptionError, match="deciding=9"):
        wf.explain(lxmert(5, 4), model_of("lxmert"), method="gae", target=1, deciding=9)


@pytest.mark.parametrize("method", wf.methods())
@pytest.mark.parametrize("name", ["lxmert", "detr", "visual_bert"])
def test_keeping_and_loading(name: str, method: str, tmp_path: Path) -> None:
    """Everything that can be kept is, changes no score, and comes back from a file as it was."""
    model = model_of(name)
    inputs, target = tiny_inputs(model), target_of(name)
    quick = {"steps": 2, "samples": 128, "fill": FILLS.get(name)}
    options = {key: value for key, value in quick.items() if key in wf.methods()[method].options}
    keeps = wf.methods()[method].keeps
    plain = wf.explain(inputs, model, method=method, target=target, **options)
    a = wf.explain(inputs, model, method=method, target=target, keep=keeps, **options)
    assert_same(a, plain)
    a.save(tmp_path / "a.safetensors")
    again = wf.load(tmp_path / "a.safetensors")
    assert again.to_dict() == a.to_dict()
    assert again.maps.keys() == a.maps.keys()
    assert all(torch.equal(again.maps[pair], a.maps[pair]) for pair in a.maps)
    assert len(again.layers) == len(a.layers)
    for ours, theirs in zip(again.layers, a.layers, strict=True):
        assert (ours.asking, ours.answering, ours.together) == (
            theirs.asking,
            theirs.answering,
            theirs.together,
        )
        for part in ("attention", "gradient", "relevance"):
            kept, loaded = getattr(theirs, part), getattr(ours, part)
            assert (kept is None) == (loaded is None)
            assert kept is None or torch.equal(kept, loaded)
    for i in range(2):
        assert_same(again[i], a[i])


@pytest.mark.parametrize("name", ["lxmert", "visual_bert", "t5"])
def test_one_sample_of_padded_streams(name: str) -> None:
    model = model_of(name)
    inputs = tiny_inputs(model)
    a = wf.explain(inputs, model, method="gae", target=1, keep=("states", "maps"))
    one = a[1]
    for stream in one.streams.values():
        assert stream.mask.all()
        assert stream.scores.shape == stream.mask.shape
        assert stream.states is not None
        assert stream.states.shape[:2] == stream.scores.shape
    for (asking, answering), relevancy in one.maps.items():
        sizes = [one.streams[s].scores.shape[1] for s in (asking, answering)]
        assert list(relevancy.shape) == [1, *sizes]
    with pytest.raises(IndexError):
        a[2]


# -- the state of the model ------------------------------------------------------------------------


@every_method
@pytest.mark.parametrize("name", ["lxmert", "t5", "detr", "clip"])
def test_train_mode_frozen_weights_and_no_grad(name: str, method: str) -> None:
    model = model_of(name)
    inputs, target = tiny_inputs(model), target_of(name)
    expected = wf.explain(inputs, model, method=method, target=target)
    other = tiny_models()[name][1]().double().train().requires_grad_(False)
    assert_same(wf.explain(inputs, other, method=method, target=target), expected)
    assert other.training
    with torch.no_grad():
        assert_same(wf.explain(inputs, model, method=method, target=target), expected)
    with torch.inference_mode():
        made_here = {name: value.clone() for name, value in inputs.items()}
        assert_same(wf.explain(made_here, model, method=method, target=target), expected)
    assert_same(wf.explain(made_here, model, method=method, target=target), expected)


# -- mistakes --------------------------------------------------------------------------------------


def without(inputs: Inputs, *names: str) -> Inputs:
    return {name: value for name, value in inputs.items() if name not in names}


def changed(inputs: Inputs, **new: Tensor | None) -> dict[str, Any]:
    return {**inputs, **new}


def nans(value: Tensor) -> Tensor:
    return torch.full_like(value, float("nan"))


L, V = lxmert(5, 4, batch=2), tiny_inputs(families["visual_bert"].tiny().double())
MISTAKES: dict[str, tuple[str, dict[str, Any], str]] = {
    "nan regions": ("lxmert", changed(L, visual_feats=nans(L["visual_feats"])), "visual_feats"),
    "nan boxes": ("lxmert", changed(L, visual_pos=nans(L["visual_pos"])), "visual_pos"),
    "infinite regions": ("lxmert", changed(L, visual_feats=L["visual_feats"] / 0), "visual_feats"),
    "no regions": ("lxmert", without(L, "visual_feats"), "visual_feats"),
    "no boxes": ("lxmert", without(L, "visual_pos"), "visual_pos"),
    "no text": ("lxmert", without(L, "input_ids"), "input_ids"),
    "wrong width": ("lxmert", changed(L, visual_feats=L["visual_feats"][..., :7]), "12"),
    "wrong boxes": ("lxmert", changed(L, visual_pos=L["visual_pos"][..., :3]), "visual_pos"),
    "fewer boxes": ("lxmert", changed(L, visual_pos=L["visual_pos"][:, :3]), "visual_pos"),
    "fewer images": ("lxmert", changed(L, visual_feats=L["visual_feats"][:, :0]), "visual_feats"),
    "three and two": (
        "lxmert",
        changed(L, input_ids=torch.ones(3, 5, dtype=torch.long)),
        "samples",
    ),
    "mask of text too short": ("lxmert", changed(L, attention_mask=torch.ones(2, 4)), "mask"),
    "mask of regions too long": (
        "lxmert",
        changed(L, visual_attention_mask=torch.ones(2, 7)),
        "visual_attention_mask",
    ),
    "mask of regions of rank 3": (
        "lxmert",
        changed(L, visual_attention_mask=torch.ones(2, 4, 4)),
        "visual_attention_mask",
    ),
    "all regions masked": (
        "lxmert",
        changed(L, visual_attention_mask=torch.zeros(2, 4)),
        "visual_attention_mask",
    ),
    "all text masked": (
        "lxmert",
        changed(L, attention_mask=torch.zeros(2, 5, dtype=torch.long)),
        "attention_mask",
    ),
    "ids beyond the vocabulary": (
        "lxmert",
        changed(L, input_ids=torch.full((2, 5), 999)),
        "999|vocabulary",
    ),
    "negative ids": ("lxmert", changed(L, input_ids=torch.full((2, 5), -1)), "-1|vocabulary"),
    "whole numbers for regions": (
        "lxmert",
        changed(L, visual_feats=torch.ones(2, 4, 12, dtype=torch.long)),
        "visual_feats",
    ),
    "an unknown argument": ("lxmert", changed(L, pixel_values=torch.ones(2, 3, 4, 4)), "pixel_val"),
    "nothing": ("lxmert", {}, "empty|text"),
    "visual bert without regions": ("visual_bert", without(V, "visual_embeds"), "visual_embeds"),
    "types of regions too few": (
        "visual_bert",
        changed(V, visual_token_type_ids=torch.zeros(2, 3, dtype=torch.long)),
        "visual_token_type_ids",
    ),
    "a bare tensor": ("lxmert", L["input_ids"], "text|mapping"),  # type: ignore[dict-item]
    "a bare text": ("lxmert", "what is it?", "text|image|mapping"),  # type: ignore[dict-item]
    "clip without image": ("clip", {"input_ids": L["input_ids"]}, "pixel_values"),
    "clip without text": ("clip", {"pixel_values": torch.ones(1, 3, 12, 12)}, "input_ids"),
    "nan pixels": ("detr", {"pixel_values": torch.full((1, 3, 16, 16), float("nan"))}, "pixel_val"),
    "one channel": ("detr", {"pixel_values": torch.ones(1, 1, 16, 16)}, "channel"),
    "an image of another size": (
        "blip_matching",
        {"input_ids": L["input_ids"], "pixel_values": torch.ones(2, 3, 20, 20)},
        "20|size",
    ),
    "frames of another width": (
        "whisper",
        {"input_features": torch.ones(1, 5, 12), "decoder_input_ids": torch.ones(1, 2).long()},
        "8",
    ),
    "too few frames": (
        "whisper",
        {"input_features": torch.ones(1, 8, 7), "decoder_input_ids": torch.ones(1, 2).long()},
        "12|frames",
    ),
    "a source and no decoder mask of its size": (
        "t5",
        {
            "input_ids": L["input_ids"],
            "decoder_input_ids": L["input_ids"],
            "decoder_attention_mask": torch.ones(2, 3),
        },
        "decoder_attention_mask",
    ),
}


@pytest.mark.parametrize("method", ["lrp_ah_ln", "gae"])
@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(case: str, method: str) -> None:
    name, inputs, said = MISTAKES[case]
    with pytest.raises(WhyformerError, match=f"(?s){said}") as caught:
        wf.explain(inputs, model_of(name), method=method, target=target_of(name))
    assert isinstance(caught.value, InputError | wf.errors.ModelError)


TARGETS: dict[str, tuple[str, Any]] = {
    "a query that there is not": ("detr", wf.query(5, 1)),
    "a negative query": ("detr", wf.query(-1, 1)),
    "a class that there is not": ("detr", wf.query(1, 77)),
    "a class without a query": ("detr", 1),
    "a token of a detector": ("yolos", wf.token(0, 1)),
    "a query of a classifier": ("lxmert", wf.query(0, 1)),
    "an answer that there is not": ("lxmert", 5),
    "a label that there is not": ("lxmert", "no such answer"),
    "too many targets": ("lxmert", [1, 2, 3]),
    "a position that there is not": ("t5", wf.token(4, 1)),
    "a position before the first": ("t5", wf.token(-9, 1)),
    "a token that there is not": ("t5", wf.token(0, 60)),
    "a position of padding": ("t5", [wf.token(0, 1), wf.token(3, 1)]),
    "a class of a similarity": ("clip", 1),
    "a contrast of a similarity": ("clip", wf.contrast(0, 1)),
    "a callable of the wrong shape": ("lxmert", lambda o: o.question_answering_score),
    "a callable that fails": ("lxmert", lambda o: o.logits[:, 0]),
}


@pytest.mark.parametrize("case", TARGETS)
def test_targets_that_do_not_fit(case: str) -> None:
    name, target = TARGETS[case]
    model = model_of(name)
    with pytest.raises(TargetError):
        wf.explain(tiny_inputs(model), model, method="gae", target=target)


# Models that declare a source, but only of text.
ONLY_TEXT = [
    name
    for name in SEVERAL
    if [(one.stream, one.kind) for one in tiny_models()[name][0].sources] == [("text", "ids")]
]


def at_embeddings(name: str) -> wf.Attribution:
    model, target = model_of(name), target_of(name)
    return wf.explain(tiny_inputs(model), model, method="attn_lrp", target=target, at="embeddings")


@pytest.mark.parametrize("name", SEVERAL)
def test_layers_that_there_are_not(name: str) -> None:
    model = model_of(name)
    for option in () if name in WITHOUT_MAPS else ({"start_layer": 99}, {"start_layer": -99}):
        with pytest.raises(OptionError, match="start_layer"):
            wf.explain(tiny_inputs(model), model, method="gae", target=target_of(name), **option)
    if name not in ONLY_TEXT:
        with pytest.raises(OptionError, match="embeddings"):
            at_embeddings(name)


@pytest.mark.parametrize("name", ONLY_TEXT)
def test_one_declared_stream_of_text_has_embeddings(name: str) -> None:
    a = at_embeddings(name)
    torch.testing.assert_close(
        a.conservation, torch.ones(2, dtype=torch.float64), rtol=0, atol=1e-8
    )


def test_a_model_of_one_stream_is_untouched_by_all_this() -> None:
    model: nn.Module = families["bert"].tiny().double()
    a = wf.explain(tiny_inputs(model), model, method="gae", target=1)
    assert list(a.streams) == ["text"]
    assert not a.maps
    assert only(model, tiny_inputs(model), 1)["input_ids"].shape == (1, 5)
