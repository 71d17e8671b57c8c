"""The cost of an explanation: the fewest passes and the least memory that each method needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

import whyformer as wf
from tests.several import target_of
from whyformer.batching import budget
from whyformer.engine.rules.operations import fused_attention as fused
from whyformer.models.families import families
from whyformer.models.families.tiny import IMAGE, tiny_inputs, tiny_model, tiny_models

METHODS = list(wf.methods())
CONSERVATIVE = ["gradient_x_input", "lrp_ah", "lrp_ln", "lrp_ah_ln", "attn_lrp"]
CONSERVING: list[tuple[str, dict[str, Any]]] = [
    ("lrp_ah_ln", {"activations": "identity"}),
    ("lrp_ah_ln", {"activations": "identity", "detach_mean": True}),
    ("attn_lrp", {}),
]


@cache
def model_of(name: str, dtype: torch.dtype = torch.float64) -> Any:
    return tiny_models()[name][1]().to(dtype)


def options_of(method: str) -> dict[str, Any]:
    return {"steps": 2} if method == "integrated_gradients" else {}


def explain(
    method: str, model: nn.Module, lengths: tuple[int, ...] = (7, 5), **options: Any
) -> wf.Attribution:
    given = {"target": 1, **options_of(method), **options}
    return wf.explain(tiny_inputs(model, lengths), model, method=method, **given)


# -- what runs ------------------------------------------------------------------------------------


class Counting(TorchFunctionMode):
    """Counts the operations that reach torch below all other function modes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: Counter[str] = Counter()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self.seen[getattr(func, "__name__", str(func))] += 1
        return func(*args, **(kwargs or {}))


def operations(method: str, model: nn.Module, **options: Any) -> Counter[str]:
    with Counting() as counting:
        explain(method, model, **options)
    return counting.seen


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize("method", CONSERVATIVE)
def test_fused_attention_stays_where_no_map_is_needed(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except for maps so small that keeping them is as cheap as computing them again."""
    monkeypatch.setattr(fused, "SMALL", 0)
    model = model_of("bert")
    assert model.config._attn_implementation == "sdpa"
    seen = operations(method, model)
    assert seen["scaled_dot_product_attention"] == model.config.num_hidden_layers
    assert seen["softmax"] == 0


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize("method", ["gae", "rollout", "transformer_attribution"])
def test_fused_attention_is_spelled_out_where_a_map_is_needed(method: str) -> None:
    """The count above can fail."""
    seen = operations(method, model_of("bert"))
    assert seen["scaled_dot_product_attention"] == 0
    assert seen["softmax"] == model_of("bert").config.num_hidden_layers


def passes(method: str, model: nn.Module, **options: Any) -> tuple[int, int]:
    """(forward passes, backward passes) through the model's head."""
    counts = Counter[str]()

    def forward(module: nn.Module, args: Any, output: Any) -> None:
        counts["forward"] += 1
        if output.logits.requires_grad:
            output.logits.register_hook(lambda gradient: counts.update(["backward"]))

    handle = model.register_forward_hook(forward)
    try:
        explain(method, model, **options)
    finally:
        handle.remove()
    return counts["forward"], counts["backward"]


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize("name", ["bert", "vit", "gpt2"])
@pytest.mark.parametrize("method", [*CONSERVATIVE, "gae", "grad_cam", "rollout", "raw_attention"])
def test_one_forward_and_one_backward(method: str, name: str) -> None:
    assert passes(method, model_of(name)) == (1, 1)


@pytest.mark.usefixtures("no_comparison")
def test_relevance_takes_a_second_backward_over_the_same_graph() -> None:
    forward, backward = passes("transformer_attribution", model_of("bert"))
    assert forward == 1
    assert backward <= 2


@pytest.mark.usefixtures("no_comparison")
def test_random_looks_at_nothing() -> None:
    assert passes("random", model_of("bert")) == (1, 0)


@pytest.mark.usefixtures("no_comparison")
@pytest.mark.parametrize(("steps", "at_once"), [(1, 1), (5, 1), (5, 2), (6, 3), (5, 100)])
def test_integrated_gradients_take_as_few_passes_as_fit(
    steps: int, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Besides the steps: a pass for the input, one for its baseline and one for its value."""
    monkeypatch.setattr(budget, "CPU", replace(budget.CPU, tokens=2 * 7 * at_once))
    forward, backward = passes("integrated_gradients", model_of("bert"), steps=steps)
    assert forward == -(-steps // at_once) + 3
    assert backward == -(-steps // at_once)


@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "lxmert", "t5"])
def test_several_steps_at_once_are_as_good_as_one_by_one(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, target = model_of(name), target_of(name)
    together = explain("integrated_gradients", model, steps=5, target=target)
    monkeypatch.setattr(budget, "CPU", replace(budget.CPU, tokens=1))
    alone = explain("integrated_gradients", model, steps=5, target=target)
    for stream, expected in alone.streams.items():
        torch.testing.assert_close(together.streams[stream].scores, expected.scores)


def test_a_callable_target_sees_the_batch_as_it_was_given() -> None:
    def mixed(output: Any) -> Tensor:
        value: Tensor = output.logits[[0, 1], [1, 0]]
        return value

    found = explain("integrated_gradients", model_of("bert"), steps=4, target=mixed)
    expected = explain("integrated_gradients", model_of("bert"), steps=4, target=[1, 0])
    torch.testing.assert_close(found.scores, expected.scores)


# -- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_nothing_is_kept_without_keep(method: str) -> None:
    found = explain(method, model_of("bert"))
    assert found.maps == {}
    assert found.streams["text"].states is None
    for layer in found.layers:
        kept = {name for name, value in vars(layer).items() if isinstance(value, Tensor)}
        assert kept <= {"relevance_sum"}
    if "rules" not in wf.methods()[method].options:
        assert found.layers == ()


@pytest.mark.parametrize("method", METHODS)
def test_keep_keeps_each_part(method: str) -> None:
    model = model_of("bert")
    plain = explain(method, model)
    found = explain(method, model, keep=("states", "attention", "gradient"))
    torch.testing.assert_close(found.scores, plain.scores)
    states = found.streams["text"].states
    assert states is not None
    torch.testing.assert_close(states, model.bert.embeddings(tiny_inputs(model)["input_ids"]))
    assert len(found.layers) == model.config.num_hidden_layers
    for layer in found.layers:
        assert layer.attention is not None
        assert layer.attention.shape == (2, 4, 7, 7)
        real = tiny_inputs(model)["attention_mask"].bool()
        rows = layer.attention.sum(-1).transpose(1, 2)[real]
        torch.testing.assert_close(rows, torch.ones_like(rows))
    assert all(layer.gradient is not None for layer in found.layers)


@pytest.mark.parametrize("method", [m for m in METHODS if "maps" in wf.methods()[m].keeps])
def test_maps_hold_the_scores(method: str) -> None:
    for reduce in ("row", "column_sum"):
        found = explain(method, model_of("bert"), keep="maps", reduce=reduce)
        (whole,) = found.maps.values()
        expected = whole[:, 0] if reduce == "row" else whole.sum(1)
        if method != "attention_flow":
            torch.testing.assert_close(found.scores, expected)
        plain = explain(method, model_of("bert"), reduce=reduce)
        torch.testing.assert_close(found.scores, plain.scores)


# -- deciding tokens, found by what the head reads ------------------------------------------------


def deciding_rows(model: nn.Module, lengths: tuple[int, ...] = (7, 5), target: Any = 1) -> Tensor:
    """The rows of the rolled-out map that the scores are made of, as weights, (batch, tokens).

    `reduce="row"` weighs rows of the map; which ones is read back by least squares.
    """
    inputs = tiny_inputs(model, lengths)
    found = wf.explain(inputs, model, method="rollout", target=target, keep="maps")
    (whole,) = found.maps.values()
    solved = torch.linalg.lstsq(whole.transpose(1, 2), found.scores.unsqueeze(-1), driver="gelsd")
    return solved.solution.squeeze(-1)


def test_a_class_token_decides() -> None:
    torch.testing.assert_close(
        deciding_rows(model_of("bert")), F.one_hot(torch.tensor([0, 0]), 7).double()
    )


def test_the_last_real_token_of_a_decoder_decides_per_sample() -> None:
    for name in ("gpt2", "llama"):
        torch.testing.assert_close(
            deciding_rows(model_of(name)),
            F.one_hot(torch.tensor([6, 4]), 7).double(),
            rtol=1e-6,
            atol=1e-6,
        )


def test_each_sample_may_explain_another_token() -> None:
    model = model_of("gpt2")
    asked = [wf.token(2, 3), wf.token(4, 3)]
    torch.testing.assert_close(
        deciding_rows(model, target=asked),
        F.one_hot(torch.tensor([2, 4]), 7).double(),
        rtol=1e-6,
        atol=1e-6,
    )


class Pooled(nn.Module):
    """A BERT body whose real tokens are averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.body = families["bert"].tiny().bert.double()
        self.config = self.body.config
        self.head = nn.Linear(32, 3, dtype=torch.float64)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        found = self.body(input_ids, attention_mask=attention_mask).last_hidden_state
        real = attention_mask.unsqueeze(-1).to(found.dtype)
        logits: Tensor = self.head((found * real).sum(1) / real.sum(1))
        return logits


def test_an_average_decides_by_all_real_tokens() -> None:
    model = Pooled().eval()
    inputs = tiny_inputs(model)
    mean = wf.explain(inputs, model, method="gae", target=1)
    named = wf.explain(inputs, model, method="gae", target=1, deciding="mean")
    torch.testing.assert_close(mean.scores, named.scores, rtol=1e-12, atol=1e-14)
    assert (mean.scores[1, 5:] == 0).all()
    first = wf.explain(inputs, model, method="gae", target=1, deciding="first")
    assert not torch.equal(mean.scores, first.scores)


def test_two_class_tokens_decide_in_equal_parts() -> None:
    """DeiT's teacher adds the logits of its class token and of its distillation token."""
    model = tiny_model("DeiTForImageClassificationWithTeacher", **IMAGE)().double()
    inputs = tiny_inputs(model)
    both = wf.explain(inputs, model, method="rollout", target=1).scores
    one, two = (
        wf.explain(inputs, model, method="rollout", target=1, deciding=i).scores for i in (0, 1)
    )
    torch.testing.assert_close(both, (one + two) / 2)
    assert not torch.equal(one, two)
    assert both.shape == (2, 9)


# -- shapes ---------------------------------------------------------------------------------------


def assert_conserved(attribution: wf.Attribution) -> None:
    total = attribution.scores.sum(1) + sum(attribution.sinks.values())
    torch.testing.assert_close(total, attribution.output, rtol=1e-8, atol=1e-9)


# Methods that remove tokens have nothing to compare: tests/methods/test_perturbation.py.
@pytest.mark.parametrize("method", [m for m in METHODS if "removal" not in wf.methods()[m].needs])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "deberta_v2"])
def test_one_token(name: str, method: str) -> None:
    found = explain(method, model_of(name), (1,))
    assert found.scores.shape == (1, 1)
    assert found.scores.isfinite().all()
    if method in ("raw_attention", "rollout", "attention_flow"):
        torch.testing.assert_close(found.scores.item(), 1.0)


SHAPES = [(1,), (6,), (3, 3, 3), (4, 4, 4, 4), (4, 2, 3, 1), (2, 2), (8,) * 4, (3,) * 8]


@pytest.mark.parametrize("lengths", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama"])
def test_samples_conserve_on_their_own_whatever_the_shape(
    name: str, lengths: tuple[int, ...]
) -> None:
    """As many samples as tokens, heads or features: no axis is taken for another."""
    model = model_of(name)
    for method, options in CONSERVING:
        found = explain(method, model, lengths, **options)
        assert_conserved(found)
        inputs = tiny_inputs(model, lengths)
        i = len(lengths) - 1
        alone = {key: value[i : i + 1, : lengths[i]] for key, value in inputs.items()}
        single = wf.explain(alone, model, method=method, target=1, **options)
        torch.testing.assert_close(found.scores[i, : lengths[i]], single.scores[0])
        for name_of_sink, sink in single.sinks.items():
            torch.testing.assert_close(found.sinks[name_of_sink][i : i + 1], sink)


class Attending(nn.Module):
    """A block around torch's own attention."""

    def __init__(self, batch_first: bool, weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=batch_first)
        self.norm, self.weights = nn.LayerNorm(8), weights

    def forward(self, x: Tensor) -> Tensor:
        mixed, _ = self.attention(x, x, x, need_weights=self.weights)
        normed: Tensor = self.norm(x + mixed)
        return normed


class Stack(nn.Module):
    """Blocks whose tokens or samples come first, and a head that ends with a constant."""

    def __init__(self, build: Callable[[], nn.Module], batch_first: bool, classes: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([build(), build()])
        self.head, self.batch_first = nn.Linear(8, classes), batch_first

    def forward(self, x: Tensor) -> Tensor:
        x = x if self.batch_first else x.transpose(0, 1)
        for block in self.blocks:
            x = block(x)
        first = x[:, 0] if self.batch_first else x[0]
        return self.head(first) * 2 + 1


LAYOUTS = {
    "encoder": lambda batch_first: nn.TransformerEncoderLayer(8, 2, 12, batch_first=batch_first),
    "encoder, norm first": lambda batch_first: nn.TransformerEncoderLayer(
        8, 2, 12, batch_first=batch_first, norm_first=True
    ),
    "with weights": lambda batch_first: Attending(batch_first, True),
    "without weights": lambda batch_first: Attending(batch_first, False),
}


@pytest.mark.parametrize(
    ("batch", "tokens"), [(1, 1), (3, 1), (1, 4), (2, 4), (4, 4), (8, 4), (2, 8), (8, 8), (3, 12)]
)
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_transposed_layouts_conserve_per_sample(
    layout: str, batch_first: bool, batch: int, tokens: int
) -> None:
    torch.manual_seed(batch * 100 + tokens)
    build = LAYOUTS[layout]
    # As many classes as samples: one more axis that could be taken for another.
    model = Stack(lambda: build(batch_first), batch_first, max(batch, 2)).double().eval()
    x = torch.randn(batch, tokens, 8, dtype=torch.float64)
    for method, options in CONSERVING:
        found = wf.explain({"x": x}, model, method=method, target=1, tokens="x", **options)
        torch.testing.assert_close(found.output, model(x)[:, 1].detach())
        assert_conserved(found)
        single = wf.explain({"x": x[-1:]}, model, method=method, target=1, tokens="x", **options)
        torch.testing.assert_close(found.scores[-1], single.scores[0])


def test_grouped_heads_are_as_many_as_queries_in_the_maps() -> None:
    model = model_of("llama")
    config = model.config
    assert config.num_key_value_heads < config.num_attention_heads
    found = explain("gae", model, keep=("attention", "gradient"))
    for layer in found.layers:
        assert layer.attention is not None
        assert layer.gradient is not None
        assert layer.attention.shape == (2, config.num_attention_heads, 7, 7)
        assert layer.gradient.shape == layer.attention.shape
        above = torch.ones(7, 7, dtype=torch.bool).triu(1)
        assert (layer.attention[..., above] == 0).all()


# -- precision ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:'full_lrp' gave a doubtful explanation")
@pytest.mark.filterwarnings("ignore::whyformer.errors.ConservationWarning")
@pytest.mark.filterwarnings("ignore::whyformer.errors.RelevanceWarning")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_halves_give_single_precision_scores(method: str, dtype: torch.dtype) -> None:
    for name in ("bert", "vit"):
        found = explain(method, model_of(name, dtype))
        assert found.scores.dtype == torch.float32
        assert found.output.dtype == torch.float32
        assert found.scores.isfinite().all()
        assert all(sink.dtype == torch.float32 for sink in found.sinks.values())
        assert found.provenance["dtype"] == str(dtype).removeprefix("torch.")


@pytest.mark.parametrize("method", [m for m in METHODS if m != "random"])
def test_double_precision_stays_double(method: str) -> None:
    found = explain(method, model_of("bert"))
    assert found.scores.dtype == torch.float64
    assert found.output.dtype == torch.float64
