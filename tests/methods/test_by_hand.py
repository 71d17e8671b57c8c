"""Each method against a slow twin, written from its paper on plain autograd, in float64.

The twins know nothing of whyformer: they read the attention maps that transformers itself
returns, or run a BERT written out below with `.detach()` where a paper has a constant.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, NamedTuple

import networkx
import numpy
import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs

LAYERS = 3
CLASS = 1


@cache
def bert(activation: str = "gelu") -> Any:
    tiny = families["bert"].tiny(
        attn_implementation="eager", num_hidden_layers=LAYERS, hidden_act=activation
    )
    return tiny.double()


@cache
def vit() -> Any:
    return families["vit"].tiny(attn_implementation="eager").double()


def one(model: nn.Module, length: int = 6) -> dict[str, Tensor]:
    return tiny_inputs(model, (length,))


def explain(method: str, model: nn.Module | None = None, **options: Any) -> wf.Attribution:
    model = bert() if model is None else model
    return wf.explain(one(model), model, method=method, target=CLASS, **options)


def assert_equal(found: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    assert expected.abs().max() > 1e-4, "a twin of nothing but zeros would prove nothing"
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=atol)


# transformers' eager ViT narrows its softmax to float32, which whyformer does not let it do.
SINGLE = 1e-6


class Maps(NamedTuple):
    """(head, query, key) of each layer, bottom up."""

    attention: list[Tensor]
    gradient: list[Tensor]


@cache
def maps_of(model: Any) -> Maps:
    """The attention maps that transformers returns, and torch's gradient of them."""
    output = model(**one(model), output_attentions=True)
    gradients = torch.autograd.grad(output.logits[0, CLASS], output.attentions)
    return Maps([a.detach()[0] for a in output.attentions], [g[0] for g in gradients])


# -- attention alone ------------------------------------------------------------------------------


@pytest.mark.parametrize("layer", [-1, 0, 1])
def test_raw_attention(layer: int) -> None:
    expected = maps_of(bert()).attention[layer].mean(0)[0]
    assert_equal(explain("raw_attention", layer=layer).scores[0], expected)


def test_raw_attention_in_columns() -> None:
    """The attention to each token, summed over all queries."""
    expected = maps_of(bert()).attention[-1].mean(0).sum(0)
    assert_equal(explain("raw_attention", reduce="column_sum").scores[0], expected)


def roll_out(layers: list[Tensor], normalize: bool, residual: bool) -> Tensor:
    """Abnar and Zuidema: the whole product of matrices, (query, key)."""
    tokens = layers[0].shape[-1]
    product = torch.eye(tokens, dtype=torch.float64)
    for attention in layers:
        mixing = attention.mean(0)
        if residual:
            mixing = mixing + torch.eye(tokens, dtype=torch.float64)
        if normalize:
            mixing = mixing / mixing.sum(-1, keepdim=True)
        product = mixing @ product
    return product


@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (0, 2), (1, 2), (-1, None)])
def test_rollout(start: int, end: int | None, normalize: bool, residual: bool) -> None:
    layers = maps_of(bert()).attention[start:end]
    expected = roll_out(layers, normalize, residual)
    found = explain(
        "rollout",
        start_layer=start,
        end_layer=end,
        normalize=normalize,
        residual=residual,
        keep="maps",
    )
    assert_equal(found.scores[0], expected[0])
    assert_equal(found.maps["text", "text"][0], expected)
    columns = explain(
        "rollout",
        start_layer=start,
        end_layer=end,
        normalize=normalize,
        residual=residual,
        reduce="column_sum",
    )
    assert_equal(columns.scores[0], expected.sum(0))


def test_rollout_of_an_image_leaves_the_class_token_out() -> None:
    expected = roll_out(maps_of(vit()).attention, normalize=True, residual=True)[0, 1:]
    assert_equal(explain("rollout", vit()).scores[0], expected, SINGLE)


def maximum_flow(mixing: list[Tensor], source: int, sink: int) -> float:
    """From a token at the top to one at the bottom of the layered graph."""
    graph = networkx.DiGraph()
    for layer, matrix in enumerate(mixing):
        for (query, key), capacity in numpy.ndenumerate(matrix.numpy()):
            graph.add_edge((layer + 1, query), (layer, key), capacity=float(capacity))
    found: float = networkx.maximum_flow_value(graph, (len(mixing), source), (0, sink))
    return found


@pytest.mark.parametrize(("start", "end"), [(0, None), (1, None), (0, 2)])
def test_attention_flow(start: int, end: int | None) -> None:
    mixing = []
    for attention in maps_of(bert()).attention[start:end]:
        matrix = attention.mean(0) + torch.eye(attention.shape[-1], dtype=torch.float64)
        mixing.append(matrix / matrix.sum(-1, keepdim=True))
    flows = torch.tensor(
        [maximum_flow(mixing, 0, sink) for sink in range(mixing[0].shape[-1])],
        dtype=torch.float64,
    )
    found = explain("attention_flow", start_layer=start, end_layer=end).scores[0]
    assert_equal(found, flows / flows.sum())
    torch.testing.assert_close(found.sum().item(), 1.0)


def test_the_maximum_flow_of_these_tests() -> None:
    """By hand: 0.5 through one narrow edge and 0.25 through the other."""
    top = torch.tensor([[0.5, 0.5], [0.0, 1.0]])
    bottom = torch.tensor([[1.0, 0.0], [0.25, 0.75]])
    assert maximum_flow([bottom, top], 0, 0) == pytest.approx(0.75)
    assert maximum_flow([bottom, top], 0, 1) == pytest.approx(0.5)
    assert maximum_flow([bottom, top], 1, 0) == pytest.approx(0.25)


# -- attention and gradient -----------------------------------------------------------------------


def generic(maps: Maps, start: int = 0) -> Tensor:
    """ICCV 2021, eqs. 5 and 6: R = R + (A-bar R), all rows, (query, key)."""
    relevance = torch.eye(maps.attention[0].shape[-1], dtype=torch.float64)
    for attention, gradient in list(zip(*maps, strict=True))[start:]:
        mixing = (gradient * attention).clamp(min=0).mean(0)
        relevance = relevance + mixing @ relevance
    return relevance


@pytest.mark.parametrize("start", [0, 1, 2])
def test_gae(start: int) -> None:
    expected = generic(maps_of(bert()), start)
    found = explain("gae", start_layer=start, keep="maps")
    assert_equal(found.scores[0], expected[0])
    assert_equal(found.maps["text", "text"][0], expected)
    assert_equal(explain("gae", start_layer=start).scores[0], expected[0])
    columns = explain("gae", start_layer=start, reduce="column_sum").scores[0]
    assert_equal(columns, expected.sum(0))


def test_gae_of_an_image() -> None:
    assert_equal(explain("gae", vit()).scores[0], generic(maps_of(vit()))[0, 1:], SINGLE)


def test_gae_of_a_decoder_starts_at_its_last_token() -> None:
    model = families["gpt2"].tiny(attn_implementation="eager").double()
    output = model(**one(model), output_attentions=True)
    gradients = torch.autograd.grad(output.logits[0, -1, 7], output.attentions)
    maps = Maps([a.detach()[0] for a in output.attentions], [g[0] for g in gradients])
    found = wf.explain(one(model), model, method="gae", target=7)
    assert_equal(found.scores[0], generic(maps)[-1])


def test_gae_with_rows_that_add_up_to_one() -> None:
    maps = maps_of(bert())
    relevance = torch.eye(6, dtype=torch.float64)
    for attention, gradient in zip(*maps, strict=True):
        mixing = (gradient * attention).clamp(min=0).mean(0) + torch.eye(6, dtype=torch.float64)
        relevance = (mixing / mixing.sum(-1, keepdim=True)) @ relevance
    assert_equal(explain("gae", normalize=True).scores[0], relevance[0])


@pytest.mark.parametrize("weights", ["map", "row"])
def test_grad_cam(weights: str) -> None:
    attention, gradient = (part[-1] for part in maps_of(bert()))
    if weights == "map":
        head = gradient.mean(dim=(1, 2), keepdim=True)
    else:
        head = gradient[:, 0].mean(dim=1)[:, None, None]
    expected = (attention * head).mean(0).clamp(min=0)[0]
    assert_equal(explain("grad_cam", weights=weights).scores[0], expected)
    if weights == "map":
        assert_equal(explain("grad_cam").scores[0], expected)


def test_grad_cam_of_an_image_weighs_heads_by_the_patches_they_look_at() -> None:
    attention, gradient = (part[-1] for part in maps_of(vit()))
    head = gradient[:, 0, 1:].mean(dim=1)[:, None]
    expected = (attention[:, 0, 1:] * head).mean(0).clamp(min=0)
    assert_equal(explain("grad_cam", vit()).scores[0], expected, SINGLE)


# -- gradients ------------------------------------------------------------------------------------


def value_at(model: Any, embedded: Tensor) -> Tensor:
    """The explained logit with these states in front of the first block, (batch,)."""
    mask = torch.ones(embedded.shape[:2], dtype=torch.long)
    found: list[Tensor] = []

    def put(module: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Any]) -> Any:
        return (embedded, *args[1:]), kwargs

    handle = model.bert.encoder.layer[0].register_forward_pre_hook(put, with_kwargs=True)
    try:
        ids = one(model)["input_ids"].expand(len(embedded), -1)
        found.append(model(input_ids=ids, attention_mask=mask).logits[:, CLASS])
    finally:
        handle.remove()
    return found[0]


def states_of(model: Any, ids: Tensor) -> Tensor:
    with torch.no_grad():
        states: Tensor = model.bert.embeddings(input_ids=ids)
    return states


def test_gradient_x_input() -> None:
    model = bert()
    states = states_of(model, one(model)["input_ids"]).requires_grad_()
    (gradient,) = torch.autograd.grad(value_at(model, states).sum(), states)
    expected = (states.detach() * gradient).sum(-1)[0]
    assert_equal(explain("gradient_x_input").scores[0], expected)


def test_gradient_x_input_at_the_word_embeddings() -> None:
    model = bert()
    embedded = model.get_input_embeddings()(one(model)["input_ids"]).detach().requires_grad_()
    value = model(inputs_embeds=embedded).logits[0, CLASS]
    (gradient,) = torch.autograd.grad(value, embedded)
    expected = (embedded.detach() * gradient).sum(-1)[0]
    assert_equal(explain("gradient_x_input", at="embeddings").scores[0], expected)


def test_integrated_gradients() -> None:
    """Against the midpoint rule with 2,000 steps; the sum must be the difference of the outputs."""
    model, steps = bert(), 2000
    found = explain("integrated_gradients", steps=64, keep="states")
    end = states_of(model, one(model)["input_ids"])
    torch.testing.assert_close(found.streams["text"].states, end)
    # The baseline is whyformer's choice: found again from the sum over the whole way.
    from whyformer.inputs.prepare import prepare

    prepared = prepare(one(model), model, None, families["bert"])
    start = states_of(model, prepared.baseline_arguments["input_ids"])
    assert not torch.equal(start, end)
    total = torch.zeros_like(end)
    for points in ((torch.arange(steps) + 0.5) / steps).to(end.dtype).split(500):
        here = (start + points[:, None, None] * (end - start)).requires_grad_()
        (gradient,) = torch.autograd.grad(value_at(model, here).sum(), here)
        total += gradient.sum(0) / steps
    expected = ((end - start) * total).sum(-1)[0]
    torch.testing.assert_close(found.scores[0], expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        begins, ends = value_at(model, start), value_at(model, end)
    torch.testing.assert_close(found.sinks["baseline"], begins)
    torch.testing.assert_close(found.scores.sum(1), ends - begins, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(found.output, ends)


def test_more_steps_come_closer_to_completeness() -> None:
    errors = []
    for steps in (1, 4, 32):
        found = explain("integrated_gradients", steps=steps)
        assert found.conservation is not None
        errors.append(abs(float(found.conservation) - 1))
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


# -- a BERT written out, constants where the papers have them -------------------------------------


class Constants(NamedTuple):
    """What is treated as a constant in the backward pass."""

    attention: bool = False  # Ali et al., eq. 9
    deviation: bool = False  # eqs. 10-12
    mean: bool = False


def norm(x: Tensor, layer: Any, constants: Constants) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    deviation = ((x - mean).pow(2).mean(-1, keepdim=True) + layer.eps).sqrt()
    if constants.deviation:
        deviation = deviation.detach()
    if constants.mean:
        mean = mean.detach()
    return (x - mean) / deviation * layer.weight + layer.bias


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def bert_logits(model: Any, x: Tensor, constants: Constants) -> Tensor:
    """The logits of a BERT classifier from the states that enter its first block."""
    for layer in model.bert.encoder.layer:
        own = layer.attention.self
        q, k, v = (
            heads(part(x), own.num_attention_heads) for part in (own.query, own.key, own.value)
        )
        attention = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
        if constants.attention:
            attention = attention.detach()
        mixed = (attention @ v).transpose(1, 2).flatten(2)
        x = norm(
            layer.attention.output.dense(mixed) + x, layer.attention.output.LayerNorm, constants
        )
        inner = layer.intermediate.intermediate_act_fn(layer.intermediate.dense(x))
        x = norm(layer.output.dense(inner) + x, layer.output.LayerNorm, constants)
    pooled = torch.tanh(model.bert.pooler.dense(x[:, 0]))
    logits: Tensor = model.classifier(pooled)
    return logits


def test_the_bert_written_out_is_the_bert() -> None:
    for activation in ("gelu", "relu"):
        model = bert(activation)
        states = states_of(model, one(model)["input_ids"])
        expected = model(**one(model)).logits
        torch.testing.assert_close(bert_logits(model, states, Constants()), expected)


DETACHED = {
    "gradient_x_input": ({}, Constants()),
    "lrp_ah": ({}, Constants(attention=True)),
    "lrp_ln": ({}, Constants(deviation=True)),
    "lrp_ln without the mean": ({"detach_mean": True}, Constants(deviation=True, mean=True)),
    "lrp_ah_ln": ({}, Constants(attention=True, deviation=True)),
    "lrp_ah_ln without the mean": ({"detach_mean": True}, Constants(True, True, True)),
}


@pytest.mark.filterwarnings("ignore::whyformer.errors.ConservationWarning")
@pytest.mark.parametrize("activation", ["gelu", "relu"])
@pytest.mark.parametrize("case", DETACHED)
def test_detached_constants(case: str, activation: str) -> None:
    options, constants = DETACHED[case]
    model = bert(activation)
    states = states_of(model, one(model)["input_ids"]).requires_grad_()
    value = bert_logits(model, states, constants)[0, CLASS]
    (gradient,) = torch.autograd.grad(value, states)
    expected = (states.detach() * gradient).sum(-1)[0]
    assert_equal(explain(case.split()[0], model, **options).scores[0], expected)


def test_the_detached_constants_make_a_difference() -> None:
    """The methods differ, so the tests above can tell them apart."""
    found = [explain(name).scores for name in ("gradient_x_input", "lrp_ah", "lrp_ln")]
    assert (found[0] - found[1]).abs().max() > 1e-3
    assert (found[0] - found[2]).abs().max() > 1e-3
    assert (found[1] - found[2]).abs().max() > 1e-3


# -- AttnLRP, formula by formula ------------------------------------------------------------------


class Attention(nn.Module):
    """One attention layer with its skip connection and norm: softmax(q k^T) v."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.norm = nn.LayerNorm(8)
        self.up = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        attention = torch.softmax(self.q(x) @ self.k(x).transpose(1, 2) / math.sqrt(8), -1)
        x = self.norm(x + self.out(attention @ self.v(x)))
        return nn.functional.gelu(self.up(x))


class OneLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Attention()]), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x[:, 0])
        return logits


def to_inputs(relevance: Tensor, x: Tensor, layer: nn.Linear, gamma: float = 0.0) -> Tensor:
    """Relevance of a linear layer's inputs, x_i w_ji R_j / z_j: the bias takes its own share.

    Contributions with the sign of z_j, the bias among them, count (1 + gamma) times.
    """
    sign = layer(x).sign().unsqueeze(-1)
    parts = x.unsqueeze(-2) * layer.weight  # (tokens, outputs, inputs)
    parts = torch.cat((parts, layer.bias.expand(len(x), -1).unsqueeze(-1)), -1)
    parts = torch.where(parts * sign > 0, parts * (1 + gamma), parts)
    shares = parts / parts.sum(-1, keepdim=True)
    return (shares[..., :-1] * relevance.unsqueeze(-1)).sum(-2)


def share_of(relevance: Tensor, left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Achtibat et al., eq. 15: a product's relevance in equal halves, each term by its share."""
    ratio = relevance / (left @ right)
    return (
        left * (ratio @ right.transpose(-2, -1)) / 2,
        right * (left.transpose(-2, -1) @ ratio) / 2,
    )


@torch.no_grad()
def attn_lrp_by_formulas(net: OneLayer, x: Tensor, target: int, gamma: float) -> Tensor:
    """Relevance of each input, (tokens, hidden); no autograd anywhere."""
    block: Any = net.blocks[0]
    q, k, v = block.q(x), block.k(x), block.v(x)
    scores = q @ k.T / math.sqrt(8)
    attention = scores.softmax(-1)
    mixed = attention @ v
    skip = x + block.out(mixed)
    normed = block.norm(skip)
    inner = block.up(normed)
    top = nn.functional.gelu(inner)

    relevance = torch.zeros_like(net.head(top))
    relevance[0, target] = net.head(top)[0, target]
    relevance = to_inputs(relevance, top, net.head, gamma)
    # Identity for the activation: relevance passes unchanged.
    relevance = to_inputs(relevance, normed, block.up, gamma)
    # Norm with constant deviation: y_j = g_j (x_j - mean) / d + b_j, linear in x.
    deviation = (skip.var(-1, correction=0, keepdim=True) + block.norm.eps).sqrt()
    arriving = relevance / normed * block.norm.weight / deviation
    relevance = skip * (arriving - arriving.mean(-1, keepdim=True))
    # Skip connection: by share.
    to_skip, to_layer = x * relevance / skip, block.out(mixed) * relevance / skip
    relevance = to_inputs(to_layer, mixed, block.out, gamma)
    to_attention, to_values = share_of(relevance, attention, v)
    # Softmax, eq. 13: R_i = x_i (R_i - s_i sum_j R_j).
    to_scores = scores * (to_attention - attention * to_attention.sum(-1, keepdim=True))
    to_queries, to_keys = share_of(to_scores, q, k.T)
    return (
        to_skip
        + to_inputs(to_values, x, block.v, gamma)
        + to_inputs(to_queries, x, block.q, gamma)
        + to_inputs(to_keys.T, x, block.k, gamma)
    )


@pytest.mark.parametrize("gamma", [0.0, 0.25])
@pytest.mark.parametrize("seed", range(3))
def test_attn_lrp(seed: int, gamma: float) -> None:
    torch.manual_seed(seed)
    net = OneLayer().double().eval()
    x = torch.randn(5, 8, dtype=torch.float64)
    expected = attn_lrp_by_formulas(net, x, CLASS, gamma).sum(-1)
    found = wf.explain(
        {"x": x[None]}, net, method="attn_lrp", target=CLASS, tokens="x", gamma=gamma
    )
    torch.testing.assert_close(found.scores[0], expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("gamma", [-0.1, math.inf, math.nan])
def test_a_gamma_that_is_none(gamma: float) -> None:
    with pytest.raises(wf.errors.OptionError, match="gamma"):
        explain("attn_lrp", gamma=gamma)


@pytest.mark.parametrize("method", ["attn_lrp", "lrp_ah_ln"])
def test_gelu_in_several_operations_is_gelu_in_one(method: str) -> None:
    """GPT-2's own formula of the same function."""
    options = {"activations": "identity"} if method == "lrp_ah_ln" else {}
    found = []
    for activation in ("gelu_new", "gelu_pytorch_tanh"):
        model = families["gpt2"].tiny(activation_function=activation).double()
        found.append(wf.explain(one(model), model, method=method, target=7, **options).scores[0])
    assert_equal(found[0], found[1], 1e-10)


# -- random ---------------------------------------------------------------------------------------


def test_random_is_the_same_for_the_same_content_and_seed() -> None:
    first, again = explain("random").scores, explain("random").scores
    assert torch.equal(first, again)
    assert not torch.equal(first, explain("random", seed=1).scores)
    assert torch.equal(explain("random", seed=1).scores, explain("random", seed=1).scores)
    other = wf.explain(tiny_inputs(bert(), (6,), seed=9), bert(), method="random")
    assert not torch.equal(first, other.scores)


def test_random_does_not_depend_on_the_seed_of_torch() -> None:
    torch.manual_seed(1)
    first = explain("random").scores
    torch.manual_seed(2)
    assert torch.equal(first, explain("random").scores)


def test_random_is_uniform() -> None:
    model = bert()
    inputs = tiny_inputs(model, (30,) * 40)
    scores = wf.explain(inputs, model, method="random").scores
    assert (scores >= 0).all()
    assert (scores < 1).all()
    counts = torch.histc(scores.float(), bins=4, min=0, max=1) / scores.numel()
    assert (counts - 0.25).abs().max() < 0.05
    assert scores.unique().numel() > 0.99 * scores.numel(), "each sample draws its own numbers"
