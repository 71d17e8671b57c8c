"""The balanced pass and its methods against a slow twin: BERT and a gated block, by plain autograd.

The twins know nothing of whyformer. They detach what LibraGrad holds constant: attention weights,
norm deviations and the gates f(x) / x of activations.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.errors import OptionError
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs

LAYERS = 3
CLASS = 1


@cache
def bert() -> Any:
    return families["bert"].tiny(num_hidden_layers=LAYERS).double()


class BalancedPass(NamedTuple):
    """What the twin found of one sample."""

    states: list[Tensor]  # relevance at the input of each block, (tokens,)
    biases: list[Tensor]  # relevance of constants in each block, (tokens,)
    head: Tensor  # relevance of constants above the blocks
    attention: list[Tensor]  # (head, query, key)
    gradient: list[Tensor]
    value: Tensor


class Twin:
    """A BERT classifier whose gates are constants; it keeps every bias as a leaf."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.biases: list[list[tuple[Tensor, Tensor]]] = [[] for _ in range(LAYERS + 1)]
        self.block = 0

    def linear(self, x: Tensor, layer: Any) -> Tensor:
        return self.add_bias(x @ layer.weight.detach().T, layer.bias)

    def add_bias(self, x: Tensor, bias: Tensor) -> Tensor:
        leaf = bias.detach().expand_as(x).clone().requires_grad_()
        self.biases[self.block].append((leaf, x))
        return x + leaf

    def norm(self, x: Tensor, layer: Any) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        deviation = (centred.pow(2).mean(-1, keepdim=True) + layer.eps).sqrt().detach()
        return self.add_bias(centred / deviation * layer.weight.detach(), layer.bias)

    def activate(self, x: Tensor, function: Any) -> Tensor:
        return x * (function(x) / x).detach()

    def run(self, x: Tensor) -> BalancedPass:
        inputs, maps = [], []
        for number, layer in enumerate(self.model.bert.encoder.layer):
            self.block = number
            inputs.append(x)
            own = layer.attention.self
            q, k, v = (
                self.linear(x, part).unflatten(-1, (own.num_attention_heads, -1)).transpose(0, 1)
                for part in (own.query, own.key, own.value)
            )
            attention = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
            maps.append(attention.detach().requires_grad_())
            mixed = (maps[-1] @ v).transpose(0, 1).flatten(1)
            output = layer.attention.output
            x = self.norm(self.linear(mixed, output.dense) + x, output.LayerNorm)
            inner = self.activate(self.linear(x, layer.intermediate.dense), nn.functional.gelu)
            x = self.norm(self.linear(inner, layer.output.dense) + x, layer.output.LayerNorm)
        self.block = LAYERS
        pooled = self.activate(self.linear(x[0], self.model.bert.pooler.dense), torch.tanh)
        value = self.linear(pooled, self.model.classifier)[CLASS]
        leaves = [[leaf for leaf, _ in own] for own in self.biases]
        flat = [leaf for own in leaves for leaf in own]
        found = torch.autograd.grad(value, [*inputs, *maps, *flat], allow_unused=True)
        relevance = iter(
            (leaf.detach() * (0 if slope is None else slope)).sum(-1)
            for leaf, slope in zip(flat, found[2 * LAYERS :], strict=True)
        )
        by_block = [[next(relevance) for _ in own] for own in leaves]
        return BalancedPass(
            [(s * g).sum(-1).detach() for s, g in zip(inputs, found[:LAYERS], strict=True)],
            [torch.stack(own).sum(0) for own in by_block[:-1]],
            torch.stack(by_block[-1]).sum(),
            [one.detach() for one in maps],
            [g.detach() for g in found[LAYERS : 2 * LAYERS]],
            value.detach(),
        )


@cache
def twin() -> BalancedPass:
    model = bert()
    ids = tiny_inputs(model, (6,))["input_ids"]
    with torch.no_grad():
        states = model.bert.embeddings(input_ids=ids)[0]
    return Twin(model).run(states.requires_grad_())


def explain(method: str, **options: Any) -> wf.Attribution:
    return wf.explain(tiny_inputs(bert(), (6,)), bert(), method=method, target=CLASS, **options)


def assert_equal(found: Tensor, expected: Tensor) -> None:
    assert expected.abs().max() > 1e-4, "a twin of nothing but zeros would prove nothing"
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_the_twin_is_the_model() -> None:
    logits = bert()(**tiny_inputs(bert(), (6,))).logits
    torch.testing.assert_close(twin().value, logits[0, CLASS].detach(), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (0, 2), (-1, None), (1, 2)])
def test_libragrad_is_the_mean_over_block_inputs(start: int, end: int | None) -> None:
    chosen = range(LAYERS)[start:end]
    found = explain("libragrad", start_layer=start, end_layer=end)
    assert_equal(found.scores[0], torch.stack([twin().states[i] for i in chosen]).mean(0))
    sinks = torch.stack(list(found.sinks.values())).sum(0)
    above = [sum(twin().biases[b].sum() for b in range(i, LAYERS)) for i in chosen]
    assert_equal(sinks[0], torch.stack([*map(torch.as_tensor, above)]).mean() + twin().head)
    assert found.conservation is not None
    assert abs(float(found.conservation) - 1) < 1e-10


def test_libragrad_with_biases_at_their_tokens() -> None:
    found = explain("libragrad", biases="tokens")
    states = torch.stack(twin().states).mean(0)
    biases = [twin().biases[b] * (b + 1) / LAYERS for b in range(LAYERS)]
    assert_equal(found.scores[0], states + torch.stack(biases).sum(0))
    assert found.conservation is not None
    assert abs(float(found.conservation) - 1) < 1e-10


def test_balanced_gae() -> None:
    relevance = torch.eye(6, dtype=torch.float64)
    for attention, gradient in zip(twin().attention, twin().gradient, strict=True):
        relevance = relevance + (attention * gradient).clamp(min=0).mean(0) @ relevance
    assert_equal(explain("gae", gradient="balanced").scores[0], relevance[0])
    assert_equal(explain("gae", gradient="balanced", memory="streamed").scores[0], relevance[0])


def test_balanced_grad_cam() -> None:
    head = twin().gradient[-1].mean(dim=(1, 2), keepdim=True)
    expected = (twin().attention[-1] * head).mean(0).clamp(min=0)[0]
    assert_equal(explain("grad_cam", gradient="balanced").scores[0], expected)


def test_balanced_transformer_attribution() -> None:
    relevance = explain("transformer_attribution", keep="relevance").layers
    rolled = torch.eye(6, dtype=torch.float64)
    for layer, gradient in zip(relevance, twin().gradient, strict=True):
        assert layer.relevance is not None
        rolled = rolled + (layer.relevance[0] * gradient).clamp(min=0).mean(0) @ rolled
    assert_equal(explain("transformer_attribution", gradient="balanced").scores[0], rolled[0])


def test_the_balanced_gradient_is_another_than_the_plain_one() -> None:
    for method in ("gae", "grad_cam", "transformer_attribution"):
        plain, balanced = explain(method), explain(method, gradient="balanced")
        assert not torch.allclose(plain.scores, balanced.scores, rtol=1e-3)


# -- gated products -------------------------------------------------------------------------------


def gated_block(llama: Any, x: Tensor, products: str) -> Tensor:
    """The MLP of a Llama block with constant gates, by the rule for its product."""
    mlp = llama.model.layers[0].mlp
    gate, up = x @ mlp.gate_proj.weight.T, x @ mlp.up_proj.weight.T
    opened = gate * (nn.functional.silu(gate) / gate).detach()
    if products == "gate":
        product = opened.detach() * up
    else:
        halves = (opened * up.detach() + opened.detach() * up) / 2
        product = halves + ((opened * up) - halves).detach()
    return product @ mlp.down_proj.weight.T


@pytest.mark.parametrize("products", ["half", "gate"])
def test_gated_products(products: str) -> None:
    """Relevance of the MLP's input alone: attention's values are zeroed, norms are constants."""
    llama = families["llama"].tiny(num_hidden_layers=1).double()
    layer = llama.model.layers[0]
    nn.init.zeros_(layer.self_attn.v_proj.weight)
    inputs = tiny_inputs(llama, (4,))
    found = wf.explain(inputs, llama, method="libragrad", products=products, target=CLASS)

    def scale(x: Tensor, norm: Any) -> Tensor:
        root = (x.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon).sqrt().detach()
        return x / root * norm.weight

    x = llama.model.embed_tokens(inputs["input_ids"])[0].detach().requires_grad_()
    leaving = x + gated_block(llama, scale(x, layer.post_attention_layernorm), products)
    value = (scale(leaving, llama.model.norm)[-1] @ llama.lm_head.weight.T)[CLASS]
    (gradient,) = torch.autograd.grad(value, x)
    torch.testing.assert_close(found.output[0], value.detach(), rtol=1e-9, atol=1e-12)
    assert_equal(found.scores[0], (x.detach() * gradient).sum(-1))


def test_both_rules_for_products_conserve_and_differ() -> None:
    llama = families["llama"].tiny().double()
    half, gate = (
        wf.explain(tiny_inputs(llama, (4,)), llama, method="libragrad", products=rule)
        for rule in ("half", "gate")
    )
    for found in (half, gate):
        assert found.conservation is not None
        torch.testing.assert_close(found.conservation, torch.ones(1, dtype=torch.float64))
    assert not torch.allclose(half.scores, gate.scores, rtol=1e-3)


# -- bad options ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "options", "named"),
    [
        ("libragrad", {"products": "third"}, "'half', 'gate'"),
        ("libragrad", {"biases": "nowhere"}, "'sinks', 'tokens'"),
        ("libragrad", {"start_layer": 2, "end_layer": 1}, "3 layers"),
        ("gae", {"gradient": "wild"}, "'plain', 'balanced'"),
        ("grad_cam", {"gradient": "wild"}, "'plain', 'balanced'"),
        ("transformer_attribution", {"gradient": "wild"}, "'plain', 'balanced'"),
    ],
)
def test_bad_options(method: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(OptionError, match=named):
        explain(method, **options)
