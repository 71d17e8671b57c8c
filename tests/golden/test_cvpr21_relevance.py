"""Relevance outputs of Chefer et al. CVPR 2021's own code: alone and batched, on stock models.

Every tensor that the authors' code left is a test of its own, named as they named it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

import whyformer as wf

from .cases import HERE, PRECISIONS, assert_equal, inputs, model, outputs, own_entry_out

SAMPLES = {"bert_cvpr21": ("s0", "s1"), "vit_cvpr21": ("img0", "img1")}
# Of the largest score; what the authors' own float32 is off their float64 by is of this order.
TOLERANCE = {"f64": 1e-5, "f32": 1e-3}
LAYER_TOLERANCE = {"f64": 1e-5, "f32": 1e-2}
ELSEWHERE = {  # compared in test_cvpr21_attention.py, or an input of the comparison
    "attn",
    "attn_grad",
    "attn_gradcam",
    "last_layer_attn",
    "rollout",
    "classes",
}
LEFT_OUT = {
    "lrp_rollout": "roll-out of clamped attention relevance, an option of the authors' generator"
    " that no paper describes; whyformer's `rollout` is of attention",
}


class Reading(NamedTuple):
    """How a golden tensor is had: a method, its options, and where its result shows it."""

    method: str
    options: dict[str, Any]
    read: Callable[[wf.Attribution], Tensor]
    tolerance: dict[str, float] = TOLERANCE


def scores(a: wf.Attribution) -> Tensor:
    return a.scores[0]


def reading(case: str, quantity: str) -> Reading:
    """The reading of e.g. "attn_cam.ours.2"."""
    name, *rest = quantity.split(".")
    text = case.startswith("bert")
    if name == "transformer_attribution":
        start = int(rest[0].removeprefix("start"))
        return Reading(name, {"start_layer": start, "normalize": text}, scores)
    if name == "full_lrp":
        read = scores if text else lambda a: a.streams["image"].pixels[0]
        return Reading(name, {"rules": rest[0]}, read)
    if name == "partial_lrp":
        return Reading(name, {"rules": rest[0]}, scores)
    if name == "partial_lrp_grad":
        return Reading("partial_lrp", {"rules": rest[0], "gradient": True}, scores)
    part = {
        "attn_cam": "relevance",
        "layer_in_relevance": "entering",
        "block_in_relevance": "entering",
        "layer_out_relevance": "leaving",
    }[name]
    rules, layer = rest[0], int(rest[1])
    method = {"ours": "transformer_attribution", "orig": "partial_lrp"}[rules]
    return Reading(
        method,
        {"rules": rules, "keep": "relevance"},
        lambda a: getattr(a.layers[layer], part)[0],
        LAYER_TOLERANCE,
    )


def keys() -> Iterator[tuple[str, str]]:
    """(case, key) of every tensor that this file compares."""
    for case in SAMPLES:
        with safe_open(HERE / case / "outputs_f64.safetensors", "pt") as file:
            for key in sorted(file.keys()):
                found = re.fullmatch(r"\w+\.c\d+\.(\w+)\b.*", key)
                if found and found[1] not in ELSEWHERE | set(LEFT_OUT):
                    yield case, key


@cache
def batch(case: str, sample: str | None, precision: str) -> dict[str, Tensor]:
    """The model's inputs: one sample, or all of them, text padded to the longest."""
    given = inputs(case)
    chosen = [sample] if sample else SAMPLES[case]
    if case == "vit_cvpr21":
        images = torch.stack([given["pixel_values"][int(s.removeprefix("img"))] for s in chosen])
        return {"pixel_values": images.to(PRECISIONS[precision][0])}
    rows = [given[f"{s}.input_ids"][0] for s in chosen]
    pad = torch.nn.utils.rnn.pad_sequence
    return {
        "input_ids": pad(rows, batch_first=True),
        "attention_mask": pad([torch.ones_like(row) for row in rows], batch_first=True),
    }


@cache
def explained(
    case: str, sample: str, target: int, precision: str, together: bool, method: str, options: tuple
) -> wf.Attribution:
    """The sample's attribution, its layers cut to its own tokens."""
    net, chosen = model(case, precision), dict(options)
    if not together:
        alone = batch(case, sample, precision)
        return wf.explain(alone, net, method=method, target=target, **chosen)
    predicted = [int(outputs(case, precision)[f"{s}.classes"][0]) for s in SAMPLES[case]]
    i = SAMPLES[case].index(sample)
    targets = [*predicted[:i], target, *predicted[i + 1 :]]
    everyone = batch(case, None, precision)
    return wf.explain(everyone, net, method=method, target=targets, **chosen)[i]


def as_golden(found: Tensor, theirs: Tensor) -> Tensor:
    """Ours without the padding of the batch it was in."""
    return found[tuple(slice(0, n) for n in theirs.shape)]


@pytest.mark.parametrize("together", [False, True], ids=["alone", "batched"])
@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize(("case", "key"), list(keys()))
def test_relevance(case: str, key: str, precision: str, together: bool) -> None:
    sample, c, quantity = key.split(".", 2)
    method, options, read, tolerance = reading(case, quantity)
    a = explained(case, sample, int(c[1:]), precision, together, method, tuple(options.items()))
    theirs = outputs(case, precision)[key]
    theirs = theirs.reshape(theirs.shape[1:]) if theirs.shape[0] == 1 else theirs
    ours = as_golden(read(a), theirs)
    if case == "bert_cvpr21" and theirs.dim() == 1:
        ours, theirs = own_entry_out(ours), own_entry_out(theirs)
    assert_equal(ours, theirs, tolerance[precision])


@pytest.mark.parametrize("together", [False, True], ids=["alone", "batched"])
@pytest.mark.parametrize("precision", list(PRECISIONS))
@pytest.mark.parametrize(
    ("case", "sample"), [(case, s) for case, samples in SAMPLES.items() for s in samples]
)
def test_logits(case: str, sample: str, precision: str, together: bool) -> None:
    """The explained value is the authors' logit: the switches leave the forward as it was."""
    golden = outputs(case, precision)
    logits = golden[f"{sample}.logits"][0]
    for c in golden[f"{sample}.classes"].tolist():
        a = explained(case, sample, c, precision, together, "transformer_attribution", ())
        assert (a.output[0] - logits[c]).abs() <= TOLERANCE[precision] / 10 * logits.abs().max()


@pytest.mark.parametrize("case", SAMPLES)
def test_the_predicted_class_is_explained_by_default(case: str) -> None:
    golden = outputs(case, "f64")
    predicted = [int(golden[f"{s}.classes"][0]) for s in SAMPLES[case]]
    net, everyone = model(case, "f64"), batch(case, None, "f64")
    default = wf.explain(everyone, net, method="transformer_attribution")
    assert default.target.tolist() == predicted
    named = wf.explain(everyone, net, method="transformer_attribution", target=predicted)
    assert torch.equal(default.scores, named.scores)


def test_relevance_adds_up_to_one_in_every_layer() -> None:
    """The start is 1 at the class, and the paper's rules conserve it (sect. 3.1, lemma 1)."""
    for case, samples in SAMPLES.items():
        for sample in samples:
            for c in outputs(case, "f64")[f"{sample}.classes"].tolist():
                a = explained(case, sample, c, "f64", True, "transformer_attribution", ())
                for layer in a.layers:
                    torch.testing.assert_close(
                        layer.relevance_sum, torch.ones(1).double(), rtol=0, atol=1e-4
                    )


def test_every_tensor_of_the_authors_is_compared_or_left_out_by_name() -> None:
    compared = {key for _, key in keys()}
    for case in SAMPLES:
        for precision in PRECISIONS:
            for key in outputs(case, precision):
                kind = re.sub(r"^\w+\.(c\d+\.)?", "", key).split(".")[0]
                assert key in compared or kind in ELSEWHERE | set(LEFT_OUT) | {"logits"}, key
