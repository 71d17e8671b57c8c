"""Tokens and sinks add up to the explained value, on every family, where a method promises it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.several import SEVERAL, only, target_of
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs, tiny_models

# Relative to the explained value.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-4}
PRECISIONS = pytest.mark.parametrize(
    "dtype",
    [
        pytest.param(torch.float64, id="float64"),
        pytest.param(torch.float32, id="float32", marks=pytest.mark.slow),
    ],
)


@cache
def model_of(name: str, dtype: torch.dtype, attention: str | None = None) -> nn.Module:
    changes = {} if attention is None else {"attn_implementation": attention}
    return tiny_models()[name][1](**changes).to(dtype)


@cache
def relu_of(name: str, dtype: torch.dtype) -> nn.Module:
    builder = families[name].relu
    assert builder is not None
    return builder().to(dtype)


def total(attribution: wf.Attribution) -> Tensor:
    """The sum of all scores and sinks, (batch,), computed here and not by the code under test."""
    tokens = sum(stream.scores.sum(dim=1) for stream in attribution.streams.values())
    return tokens + sum(sink.to(tokens.dtype) for sink in attribution.sinks.values())


def mass(attribution: wf.Attribution) -> Tensor:
    """The sum of all scores and sinks without their signs, (batch,)."""
    parts = [one.scores.abs().sum(1) for one in attribution.streams.values()]
    return sum([*parts, *(sink.abs() for sink in attribution.sinks.values())])


def assert_conserved(attribution: wf.Attribution, tolerance: float) -> None:
    value = attribution.output.to(attribution.scores.dtype)
    error = (total(attribution) - value).abs()
    # What cancels in an output near zero is rounded too.
    rounding = 16 * torch.finfo(value.dtype).eps * mass(attribution)
    allowed = tolerance * value.abs() + rounding
    assert (error <= allowed).all(), f"off by {error.tolist()} of {value.tolist()}"
    assert attribution.conservation is not None
    torch.testing.assert_close(
        attribution.conservation.to(value.dtype),
        total(attribution) / value,
        rtol=tolerance,
        atol=float(tolerance + (rounding / value.abs()).max()),
    )
    largest = max(stream.scores.abs().max() for stream in attribution.streams.values())
    assert largest > 1e-3, "sinks that take everything would also add up"


def explain(model: nn.Module, method: str, target: Any = 1, **options: Any) -> wf.Attribution:
    with warnings.catch_warnings():
        warnings.simplefilter("error", wf.errors.ConservationWarning)
        return wf.explain(tiny_inputs(model), model, method=method, target=target, **options)


@PRECISIONS
@pytest.mark.parametrize(
    "attention",
    [pytest.param(None, id="fused"), pytest.param("eager", id="eager", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("name", tiny_models())
def test_identity_activations_conserve(
    name: str, attention: str | None, dtype: torch.dtype
) -> None:
    model = model_of(name, dtype, attention)
    attribution = explain(model, "lrp_ah_ln", target_of(name), activations="identity")
    assert_conserved(attribution, TOLERANCE[dtype])


@PRECISIONS
@pytest.mark.parametrize("name", tiny_models())
def test_attn_lrp_conserves(name: str, dtype: torch.dtype) -> None:
    attribution = explain(model_of(name, dtype), "attn_lrp", target_of(name))
    assert_conserved(attribution, TOLERANCE[dtype])


@pytest.mark.parametrize("gamma", [0.05, 1.0])
@pytest.mark.parametrize("name", ["bert", "clip", "detr", "gpt2", "llama", "vit"])
def test_attn_lrp_with_gamma_conserves(name: str, gamma: float) -> None:
    model = model_of(name, torch.float64)
    attribution = explain(model, "attn_lrp", target_of(name), gamma=gamma)
    assert_conserved(attribution, 1e-10)
    plain = explain(model, "attn_lrp", target_of(name))
    assert (attribution.scores - plain.scores).abs().max() > 1e-3 * plain.scores.abs().max()


@pytest.mark.parametrize("method", ["lrp_ah_ln", "attn_lrp"])
@pytest.mark.parametrize("name", SEVERAL)
def test_each_sample_conserves_on_its_own(name: str, method: str) -> None:
    """A sample in a batch of three has the same sinks and conservation as alone."""
    model = model_of(name, torch.float64)
    options = {"activations": "identity"} if method == "lrp_ah_ln" else {}
    inputs = tiny_inputs(model, (7, 5, 6))
    together = wf.explain(inputs, model, method=method, target=target_of(name), **options)
    assert_conserved(together, 1e-10)
    alone = wf.explain(
        only(model, inputs, 1), model, method=method, target=target_of(name), **options
    )
    nothing = torch.zeros(1, dtype=torch.float64)  # such as a mask that only a batch needs
    for sink in alone.sinks.keys() | together.sinks.keys():
        ours, theirs = (a.sinks.get(sink, nothing) for a in (alone, together[1]))
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-9)


def one_logit(output: Any) -> Tensor:
    """Class 1 of the first token if the head labels tokens, else of the sample, (batch,)."""
    logits: Tensor = output.logits
    return logits[:, 0, 1] if logits.dim() == 3 else logits[:, 1]


@PRECISIONS
@pytest.mark.parametrize("name", [name for name, known in families.items() if known.relu])
def test_the_two_detaches_conserve_on_relu_networks(name: str, dtype: torch.dtype) -> None:
    model = relu_of(name, dtype)
    # A causal model's first token sees only itself: let its last one decide, as always.
    target: Callable[[Any], Tensor] | int = 1 if families[name].causal else one_logit
    assert_conserved(explain(model, "lrp_ah_ln", target), TOLERANCE[dtype])


@PRECISIONS
@pytest.mark.parametrize("name", ["bert", "dinov2", "gpt2"])
def test_detached_means_conserve_too(name: str, dtype: torch.dtype) -> None:
    attribution = explain(
        model_of(name, dtype), "lrp_ah_ln", activations="identity", detach_mean=True
    )
    assert_conserved(attribution, TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["bert", "llama", "vit"])
def test_a_contrast_conserves(name: str) -> None:
    attribution = explain(
        model_of(name, torch.float64), "lrp_ah_ln", wf.contrast(1, 2), activations="identity"
    )
    assert_conserved(attribution, 1e-10)


def test_class_and_register_tokens_are_a_sink_of_images() -> None:
    for name in ("vit", "dinov2_registers"):
        attribution = explain(model_of(name, torch.float64), "lrp_ah_ln", activations="identity")
        assert attribution.sinks["prefix"].abs().min() > 0


def test_biases_are_a_sink_and_not_the_tokens() -> None:
    """In a model without biases the tokens' scores sum to the output."""
    model = families["llama"].tiny().double()
    attribution = explain(model, "lrp_ah_ln", activations="identity")
    torch.testing.assert_close(
        attribution.scores.sum(dim=1), attribution.output, rtol=1e-10, atol=0
    )
    bert = explain(model_of("bert", torch.float64), "lrp_ah_ln", activations="identity")
    assert sum(sink.abs() for sink in bert.sinks.values()).min() > 1e-3


def test_gelu_without_its_rule_does_not_conserve_and_promises_nothing() -> None:
    """This check can fail: GELU(x) is not x times its gradient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wf.errors.ConservationWarning)
        model = model_of("vit", torch.float64)
        attribution = wf.explain(tiny_inputs(model), model, method="lrp_ah_ln", target=1)
    assert ((total(attribution) - attribution.output).abs() > 1e-4).all()
