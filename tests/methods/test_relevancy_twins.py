"""Relevancies between streams against loops that follow the paper, on LXMERT, T5 and DETR.

The twins read attention and its gradient off transformers' own modules by plain hooks and
autograd, so that neither the rules nor whose tokens a map mixes is taken from whyformer.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.reference.relevancy import Relevancies, crossed, head_average, rolled_out
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs

SEEDS = range(3)
NAMES = ("lxmert", "t5", "detr")
STREAMS = {"lxmert": ("text", "image"), "t5": ("generated", "source"), "detr": ("queries", "image")}
QUERY, CLASS = 2, 1

pytestmark = [pytest.mark.parametrize("seed", SEEDS), pytest.mark.parametrize("name", NAMES)]


class Step(NamedTuple):
    """One attention of a forward pass: the streams of queries and keys, its map and gradient."""

    asking: str
    answering: str
    attention: Tensor  # (head, query, key)
    gradient: Tensor


@cache
def model_of(name: str, seed: int) -> Any:
    return families[name].tiny(seed=seed, attn_implementation="eager").double()


@cache
def inputs_of(name: str, seed: int) -> dict[str, Tensor]:
    return tiny_inputs(model_of(name, seed), (6,), seed=seed)


def value_of(name: str, output: Any) -> Tensor:
    if name == "lxmert":
        return output.question_answering_score[0, CLASS]
    if name == "t5":
        return output.logits[0, -1, CLASS]
    return output.logits[0, QUERY, CLASS]


def target_of(name: str) -> Any:
    return wf.query(QUERY, CLASS) if name == "detr" else CLASS


def asks(name: str, path: str, calls: int) -> tuple[str, str]:
    """The streams of queries and keys of an attention module, from its path."""
    first, second = STREAMS[name]
    if name == "lxmert":
        if "visual_attention" in path:  # one module, called for text to image, then back
            return (first, second) if calls == 0 else (second, first)
        return (second, second) if "r_layers" in path or "visn_self" in path else (first, first)
    if "EncDecAttention" in path or "encoder_attn" in path:
        return first, second
    return (first, first) if ".decoder." in f".{path}" else (second, second)


@cache
def steps(name: str, seed: int) -> tuple[tuple[Step, ...], Tensor]:
    """Every attention in the order of the forward pass, and the explained value."""
    model = model_of(name, seed)
    kinds = ("LxmertAttention", "T5Attention", "DetrSelfAttention", "DetrCrossAttention")
    kinds = (*kinds, "DetrAttention")
    seen: list[tuple[str, str, Tensor]] = []
    calls: dict[str, int] = {}
    softmax = nn.functional.softmax
    inside: list[str] = []

    def noting(scores: Tensor, *args: Any, **options: Any) -> Tensor:
        options["dtype"] = scores.dtype  # some modules narrow it to float32 by this option
        weights = softmax(scores, *args, **options)
        if inside:
            path = inside[-1]
            asking, answering = asks(name, path, calls.get(path, 0))
            calls[path] = calls.get(path, 0) + 1
            seen.append((asking, answering, weights))
        return weights

    handles = []
    for path, module in model.named_modules():
        if type(module).__name__ in kinds:
            handles.append(module.register_forward_pre_hook(lambda *_, p=path: inside.append(p)))
            handles.append(module.register_forward_hook(lambda *_: inside.pop() and None))
    try:
        nn.functional.softmax = noting
        value = value_of(name, model(**inputs_of(name, seed)))
    finally:
        nn.functional.softmax = softmax
        for handle in handles:
            handle.remove()
    maps = [weights for *_, weights in seen]
    gradients = torch.autograd.grad(value, maps, allow_unused=True)
    found = tuple(
        Step(a, b, w.detach()[0], torch.zeros_like(w[0]) if g is None else g[0])
        for (a, b, w), g in zip(seen, gradients, strict=True)
    )
    return found, value.detach()


def sizes_of(found: tuple[Step, ...]) -> dict[str, int]:
    return {step.asking: step.attention.shape[1] for step in found}


def explain(name: str, seed: int, method: str, **options: Any) -> wf.Attribution:
    model, inputs = model_of(name, seed), inputs_of(name, seed)
    return wf.explain(inputs, model, method=method, target=target_of(name), **options)


def assert_equal(name: str, found: Tensor, expected: Tensor) -> None:
    # transformers narrows T5's softmax to float32, which whyformer does not let it do.
    tolerance = 2e-5 if name == "t5" else 1e-9
    atol = tolerance * float(expected.abs().max()) + 1e-12
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


def deciding(name: str, found: tuple[Step, ...]) -> int:
    """The row that is read: of [CLS], of the last generated token, or of the explained query."""
    return {"lxmert": 0, "t5": sizes_of(found).get("generated", 0) - 1}.get(name, QUERY)


def test_the_twins_see_every_attention(name: str, seed: int) -> None:
    found, value = steps(name, seed)
    ours = explain(name, seed, "gae", keep=("attention", "gradient"))
    assert_equal(name, ours.output[0], value)
    labels = [(layer.asking, layer.answering) for layer in ours.layers]
    assert labels == [(step.asking, step.answering) for step in found]
    for layer, step in zip(ours.layers, found, strict=True):
        assert_equal(name, layer.attention[0], step.attention)
        assert_equal(name, layer.gradient[0], step.gradient)


def test_eqs_5_to_11(name: str, seed: int) -> None:
    found, _ = steps(name, seed)
    relevancies = Relevancies(sizes_of(found))
    waiting: dict[tuple[str, str], Tensor] = {}
    for step in found:
        average = head_average(step.attention, step.gradient)
        if step.asking == step.answering:
            relevancies.self_attention(step.asking, average)
            continue
        waiting[step.asking, step.answering] = average
        # LXMERT asks in both directions on the same states: both or neither.
        if len(waiting) == (2 if name == "lxmert" else 1):
            relevancies.co_attention(waiting)
            waiting = {}
    assert not waiting
    ours = explain(name, seed, "gae")
    row = deciding(name, found)
    for (a, b), expected in relevancies.of.items():
        if (a, b) in ours.maps:
            assert_equal(name, ours.maps[a, b][0], expected)
        else:
            assert not expected.any(), "a stream that asks nothing of the other"
    asking, answering = STREAMS[name]
    assert relevancies.of[asking, answering].abs().max() > 1e-4, "nothing came across"
    assert_equal(name, ours.streams[asking].scores[0], relevancies.of[asking, asking][row])
    assert_equal(name, ours.streams[answering].scores[0], relevancies.of[asking, answering][row])


def test_rollout(name: str, seed: int) -> None:
    found, _ = steps(name, seed)
    own = {stream: torch.eye(size).double() for stream, size in sizes_of(found).items()}
    between: dict[tuple[str, str], Tensor] = {}
    for step in found:
        if step.asking == step.answering:
            own[step.asking] = rolled_out(own[step.asking], step.attention)
        else:
            between[step.asking, step.answering] = crossed(
                own[step.asking], step.attention, own[step.answering]
            )
    ours = explain(name, seed, "rollout")
    row = deciding(name, found)
    asking, answering = STREAMS[name]
    assert_equal(name, ours.maps[asking, asking][0], own[asking])
    assert_equal(name, ours.maps[asking, answering][0], between[asking, answering])
    assert_equal(name, ours.streams[answering].scores[0], between[asking, answering][row])
    assert_equal(name, ours.streams[asking].scores[0], own[asking][row])


def test_the_last_maps(name: str, seed: int) -> None:
    """Raw attention and Grad-CAM: the last self-attention and the last cross-attention."""
    found, _ = steps(name, seed)
    row = deciding(name, found)
    asking, answering = STREAMS[name]
    for method in ("raw_attention", "grad_cam"):
        ours = explain(name, seed, method, **({"weights": "map"} if method == "grad_cam" else {}))
        for stream in (asking, answering):
            last = [s for s in found if (s.asking, s.answering) == (asking, stream)][-1]
            if method == "raw_attention":
                expected = last.attention.mean(0)[row]
            else:
                weight = last.gradient.mean(dim=(1, 2), keepdim=True)
                expected = (last.attention * weight).mean(0).clamp(min=0)[row]
            assert_equal(name, ours.streams[stream].scores[0], expected)
