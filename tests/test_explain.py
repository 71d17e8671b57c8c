"""The public call: what it refuses and how it says so, and models of the user's own kind."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache
from importlib.metadata import version
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import whyformer as wf
from whyformer.errors import (
    ConservationWarning,
    InputError,
    ModelError,
    OptionError,
    TargetError,
    UnknownNameError,
    WhyformerError,
)
from whyformer.models.families import families
from whyformer.models.families.tiny import tiny_inputs, tiny_model

METHODS = list(wf.methods())
CONSERVING_NAMES = {"lrp_ah_ln", "attn_lrp", "libragrad", "blend", "auto"}
CHEAP = {"integrated_gradients": {"steps": 3}}
CONSERVING: list[tuple[str, dict[str, Any]]] = [
    ("lrp_ah_ln", {"activations": "identity"}),
    ("lrp_ah_ln", {"activations": "identity", "detach_mean": True}),
    ("attn_lrp", {}),
]
ATTENTION_METHODS = [
    "raw_attention",
    "rollout",
    "attention_flow",
    "grad_cam",
    "gae",
    "transformer_attribution",
    "partial_lrp",
    "lrp_ah",
    "lrp_ah_ln",
    "attn_lrp",
]
NO_GRADIENT = {"random", "raw_attention", "rollout", "attention_flow"}
NO_GRADIENT |= {name for name in METHODS if "removal" in wf.methods()[name].needs}
GRADIENT_METHODS = [name for name in METHODS if name not in NO_GRADIENT]
WIDTH = 8


def matmul(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention over (batch, head, token, feature), with operators."""
    return torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1]), dim=-1) @ v


def methods_of_tensors(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return q.matmul(k.mT).mul(q.shape[-1] ** -0.5).softmax(-1).matmul(v)


def einsum(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.einsum("bhqd,bhkd->bhqk", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhqk,bhkd->bhqd", F.softmax(weights, -1), v)


def einsum_of_a_list(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.einsum("bhqd,bhkd->bhqk", [q, k]).div(math.sqrt(q.shape[-1]))
    return torch.einsum("bhqk,bhkd->bhqd", [nn.Softmax(dim=-1)(weights), v])


def folded(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Samples and heads in one axis, samples outside."""
    batch, count = q.shape[:2]
    q, k, v = (part.reshape(batch * count, *part.shape[2:]) for part in (q, k, v))
    weights = F.softmax(torch.bmm(q, k.transpose(1, 2)) / math.sqrt(q.shape[-1]), dim=-1)
    return torch.bmm(weights, v).unflatten(0, (batch, count))


def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v)


ATTENTIONS = {
    function.__name__: function
    for function in (matmul, methods_of_tensors, einsum, einsum_of_a_list, folded, fused)
}
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_new": lambda x: (
        0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3))))
    ),
    "gelu by erf": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "gelu, gate first": lambda x: 0.5 * (1.0 + torch.erf(x * 2**-0.5)) * x,
    "quick gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "swish": lambda x: x.sigmoid().mul(x),
    "mish": lambda x: x * torch.tanh(F.softplus(x)),
    "squared relu": lambda x: torch.relu(x).square(),
}


class Block(nn.Module):
    """Pre-norm attention with two heads, then a feed-forward layer; both can be swapped."""

    def __init__(
        self,
        attend: Callable[[Tensor, Tensor, Tensor], Tensor] = matmul,
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        self.attend, self.activation = attend, activation
        self.norm, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 12), nn.Linear(12, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norm(x)).unflatten(-1, (3, 2, -1)).permute(2, 0, 3, 1, 4)
        x = x + self.out(self.attend(*parts).transpose(1, 2).flatten(2))
        return x + self.down(self.activation(self.up(self.second(x))))


class Net(nn.Module):
    """Blocks, and a head on the first token."""

    def __init__(self, *blocks: nn.Module, classes: int = 3) -> None:
        super().__init__()
        self.blocks, self.head = nn.ModuleList(blocks), nn.Linear(WIDTH, classes)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x[:, 0])
        return logits


def stirred(model: nn.Module) -> Any:
    """The model in double precision with weights that all matter, the same for the same shapes."""
    generator = torch.Generator().manual_seed(0)
    model = model.double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.copy_(noise / math.sqrt(parameter.shape[-1]))
    return model


@cache
def net() -> Any:
    return stirred(Net(Block(), Block()))


def states(batch: int = 2, tokens: int = 4) -> Tensor:
    generator = torch.Generator().manual_seed(batch * 100 + tokens)
    return torch.randn(batch, tokens, WIDTH, generator=generator, dtype=torch.float64)


def explain(model: nn.Module | None = None, x: Tensor | None = None, **options: Any) -> Any:
    model = net() if model is None else model
    method = options.get("method", "lrp_ah_ln")
    given = {"target": 1, "tokens": "x", **CHEAP.get(str(method), {}), **options}
    return wf.explain({"x": states() if x is None else x}, model, **given)


def assert_conserved(attribution: wf.Attribution, tolerance: float = 1e-9) -> None:
    total = attribution.scores.sum(1) + sum(attribution.sinks.values())
    torch.testing.assert_close(total, attribution.output, rtol=tolerance, atol=tolerance)
    assert attribution.scores.abs().max() > 1e-3


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Equal within what dividing by sums that nearly cancel leaves of double precision."""
    atol = 1e-6 * float(expected.abs().max())
    torch.testing.assert_close(found, expected, rtol=0, atol=atol)


# -- names and options ----------------------------------------------------------------------------


def test_unknown_methods() -> None:
    with pytest.raises(
        UnknownNameError, match=r"'rolout'.*Did you mean 'rollout'\? Choose one of .*gae"
    ):
        explain(method="rolout")
    with pytest.raises(UnknownNameError, match="no method called None"):
        explain(method=None)


def test_a_list_of_methods() -> None:
    with pytest.raises(WhyformerError):
        explain(method=["gae"])


def test_unknown_options_list_those_that_are_known() -> None:
    with pytest.raises(OptionError) as caught:
        explain(method="gae", start_layr=1)
    said = str(caught.value)
    assert "'gae' has no option 'start_layr'" in said
    assert "Did you mean 'start_layer'?" in said
    for option, default in wf.methods()["gae"].options.items():
        assert f"{option}={default!r}" in said


@pytest.mark.parametrize("method", METHODS)
def test_no_method_swallows_an_option(method: str) -> None:
    with pytest.raises(OptionError, match="has no option 'colour'"):
        explain(method=method, colour="red")


def test_options_are_checked_before_any_work_is_done() -> None:
    with pytest.raises(OptionError):
        wf.explain("text", "no such model", method="gae", colour="red")
    with pytest.raises(OptionError):
        wf.explain("text", "no such model", method="gae", keep="everything")


BAD_VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("gae", {"reduce": "rows"}, "reduce='rows' is unknown. Use 'row' or 'column_sum'"),
    ("rollout", {"reduce": None}, "reduce=None"),
    (
        "lrp_ah_ln",
        {"activations": "gelu"},
        "activations='gelu' is unknown. Choose one of 'gradient'",
    ),
    ("lrp_ah_ln", {"at": "inputs"}, "at='inputs' is unknown. Use 'states' or 'embeddings'"),
    (
        "gradient_x_input",
        {"at": "embeddings"},
        "needs a model with word embeddings, and Net has none",
    ),
    ("grad_cam", {"weights": "column"}, "weights='column' is unknown. Choose one of 'row', 'map'"),
    (
        "transformer_attribution",
        {"rules": "new"},
        "rules='new' is unknown. Choose one of 'ours', 'orig'",
    ),
    ("full_lrp", {"rules": "new"}, "rules='new'"),
    ("partial_lrp", {"rules": ""}, "rules=''"),
    ("gae", {"keep": "layers"}, "cannot keep 'layers'"),
    ("gae", {"keep": ("maps", "layers")}, "cannot keep 'layers'"),
    ("lrp_ah_ln", {"keep": "maps"}, "method 'lrp_ah_ln' cannot keep 'maps'. It can keep"),
    ("gae", {"start_layer": 2}, "start_layer=2, but the model has 2 attention layers"),
    ("gae", {"start_layer": -3}, "start_layer=-3"),
    ("rollout", {"start_layer": 9}, "start_layer=9"),
    ("attention_flow", {"start_layer": 9}, "start_layer=9"),
    ("transformer_attribution", {"start_layer": 9}, "start_layer=9"),
    ("raw_attention", {"layer": 2}, "layer=2, but the model has 2 attention layers"),
    ("raw_attention", {"layer": -3}, "layer=-3"),
    ("integrated_gradients", {"steps": 0}, "steps=0"),
    ("integrated_gradients", {"steps": -4}, "steps=-4"),
    ("rollout", {"end_layer": 0}, "end_layer=0"),
    ("rollout", {"end_layer": 3}, "end_layer=3"),
    ("rollout", {"end_layer": -9}, "end_layer=-9"),
    ("rollout", {"start_layer": 1, "end_layer": 1}, "end_layer=1"),
    ("attention_flow", {"end_layer": 0}, "end_layer=0"),
    ("attention_flow", {"end_layer": 9}, "end_layer=9"),
]


@pytest.mark.parametrize(("method", "options", "said"), BAD_VALUES)
def test_bad_values(method: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        explain(method=method, **options)
    assert said in str(caught.value)


WRONG_TYPES: list[tuple[str, dict[str, Any]]] = [
    ("gae", {"start_layer": "a"}),
    ("gae", {"start_layer": 1.5}),
    ("gae", {"start_layer": None}),
    ("raw_attention", {"layer": "last"}),
    ("integrated_gradients", {"steps": "many"}),
    ("integrated_gradients", {"steps": 2.5}),
    ("gae", {"keep": 5}),
    ("gae", {"normalize": "maybe"}),
]


@pytest.mark.parametrize(("method", "options"), WRONG_TYPES)
def test_values_of_the_wrong_type(method: str, options: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=next(iter(options))):
        explain(method=method, **options)


# -- the deciding token ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deciding", "rows"),
    [("first", [0]), ("last", [3]), ("mean", [0, 1, 2, 3]), (0, [0]), (2, [2]), (-1, [3])],
)
def test_deciding_tokens(deciding: str | int, rows: list[int]) -> None:
    whole = explain(method="rollout", keep="maps").maps["tokens", "tokens"]
    found = explain(method="rollout", deciding=deciding)
    torch.testing.assert_close(found.scores, whole[:, rows].mean(1))


def test_the_deciding_token_is_the_one_that_the_head_reads() -> None:
    inferred = explain(method="rollout")
    assert torch.equal(inferred.scores, explain(method="rollout", deciding="first").scores)


def padded() -> tuple[Any, dict[str, Tensor]]:
    model = families["bert"].tiny().double()
    return model, tiny_inputs(model, (7, 4))


def test_the_last_token_is_the_last_real_one() -> None:
    model, inputs = padded()
    maps = wf.explain(inputs, model, method="rollout", keep="maps").maps["text", "text"]
    last = wf.explain(inputs, model, method="rollout", deciding="last").scores
    torch.testing.assert_close(last, torch.stack([maps[0, 6], maps[1, 3]]))
    mean = wf.explain(inputs, model, method="rollout", deciding="mean").scores
    torch.testing.assert_close(mean, torch.stack([maps[0].mean(0), maps[1, :4].mean(0)]))


@pytest.mark.parametrize("deciding", ["middle", "", True, 1.0, (0,), 4, -5])
def test_deciding_tokens_that_there_are_not(deciding: Any) -> None:
    with pytest.raises(OptionError, match="deciding="):
        explain(method="gae", deciding=deciding)


def test_a_deciding_token_that_one_sample_has_not() -> None:
    model, inputs = padded()
    wf.explain(inputs, model, method="gae", deciding=3)
    with pytest.raises(OptionError, match=r"deciding=4, but the shortest sample has 4 tokens"):
        wf.explain(inputs, model, method="gae", deciding=4)


@pytest.mark.parametrize("method", METHODS)
def test_nonsense_is_refused_by_methods_that_need_no_deciding_token_too(method: str) -> None:
    with pytest.raises(OptionError, match="deciding="):
        explain(method=method, deciding="nonsense")


# -- blocks ---------------------------------------------------------------------------------------


def test_blocks_that_there_are_not() -> None:
    with pytest.raises(ModelError, match=r"no module 'encoder'.*Lists of modules in it: 'blocks'"):
        explain(blocks="encoder")


def test_blocks_may_be_named() -> None:
    assert torch.equal(explain(blocks="blocks").scores, explain().scores)
    upper = explain(blocks="blocks.1", keep="states")
    expected = net().blocks[0](states())
    torch.testing.assert_close(upper.streams["tokens"].states, expected.detach())


def test_blocks_that_are_never_run() -> None:
    class Spare(Net):
        def __init__(self) -> None:
            super().__init__(Block())
            self.spare = nn.ModuleList([Block()])

    with pytest.raises(ModelError, match="ran without going through its blocks"):
        explain(stirred(Spare()), blocks="spare")


def test_a_model_without_blocks() -> None:
    class Flat(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(WIDTH, 3)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.linear(x[:, 0])
            return logits

    with pytest.raises(
        ModelError, match=r"cannot tell which modules of Flat.*blocks='path.to.blocks'"
    ):
        explain(stirred(Flat()))


def test_samples_on_the_wrong_axis() -> None:
    with pytest.raises(ModelError, match=r"\(tokens, batch, hidden\).*pass batch_first=True"):
        explain(batch_first=False)
    with pytest.raises(ModelError, match=r"\(batch, tokens, hidden\).*pass batch_first=False"):
        explain(stirred(Encoder(batch_first=False)), batch_first=True)


class Plain(nn.Module):
    """A block without attention."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x + torch.tanh(self.linear(x)) + x.mean(1, keepdim=True))


@pytest.mark.parametrize("method", ATTENTION_METHODS)
def test_a_model_without_attention(method: str) -> None:
    with pytest.raises(ModelError, match="no attention was seen"):
        explain(stirred(Net(Plain(), Plain())), method=method)


@pytest.mark.parametrize("method", ["gradient_x_input", "integrated_gradients", "lrp_ln", "random"])
def test_methods_that_need_no_attention(method: str) -> None:
    found = explain(stirred(Net(Plain(), Plain())), method=method)
    assert found.scores.abs().max() > 1e-3


# -- targets --------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", GRADIENT_METHODS)
def test_a_target_that_does_not_depend_on_the_tokens(method: str) -> None:
    for target in (
        lambda output: torch.ones(2, dtype=torch.float64, requires_grad=True) * 2,
        lambda output: output.detach()[:, 0],
    ):
        with pytest.raises(TargetError, match="does not depend"):
            explain(method=method, target=target)


def test_targets_computed_from_the_output() -> None:
    """Constants per sample, scales, several classes: all are operations like any other."""
    offset = torch.tensor([1.0, -2.0], dtype=torch.float64)
    targets: list[Callable[[Tensor], Tensor]] = [
        lambda output: output[:, 0] - 1,
        lambda output: output[:, 0] * offset,
        lambda output: output[:, 0] - offset,
        lambda output: offset + 2 * output[:, 0],
        lambda output: output[:, 0] - output[:, 1:].mean(1),
        lambda output: (output * torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)).sum(-1),
    ]
    for target in targets:
        found = explain(method="lrp_ah_ln", target=target, activations="identity")
        torch.testing.assert_close(found.output, target(net()(states())).detach())
        assert_conserved(found)
        for i in range(2):
            alone = explain(x=states()[i : i + 1], target=lambda output: output[:, 0])
            assert alone.scores.shape == (1, 4)


def head_model(name: str, **changes: Any) -> Any:
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "vocab_size": 60,
        "max_position_embeddings": 40,
        "pad_token_id": 0,
    }
    return tiny_model(name, **{**sizes, **changes})().double()


def test_token_classification() -> None:
    model = head_model("BertForTokenClassification", num_labels=4)
    inputs = tiny_inputs(model, (6, 4))
    logits = model(**inputs).logits
    found = wf.explain(
        inputs, model, method="lrp_ah_ln", target=wf.token(2, 3), activations="identity"
    )
    torch.testing.assert_close(found.output, logits[:, 2, 3].detach())
    assert found.target.tolist() == [3, 3]
    assert_conserved(found)
    best = wf.explain(inputs, model, method="gae", target=wf.token(2))
    assert best.target.tolist() == logits[:, 2].argmax(-1).tolist()
    maps = wf.explain(inputs, model, method="gae", target=wf.token(2), keep="maps")
    torch.testing.assert_close(best.scores, maps.maps["text", "text"][:, 2])
    default = wf.explain(inputs, model)  # the most confident class of a real token
    chances = logits.softmax(-1).amax(-1) * inputs["attention_mask"]
    rows = torch.arange(len(logits))
    torch.testing.assert_close(
        default.output, logits[rows, chances.argmax(1)].amax(-1).detach(), rtol=1e-5, atol=1e-6
    )


def test_question_answering() -> None:
    model = head_model("BertForQuestionAnswering")
    inputs = tiny_inputs(model, (6, 4))
    output = model(**inputs)
    found = wf.explain(
        inputs, model, method="lrp_ah_ln", target=wf.span(1, 3), activations="identity"
    )
    expected = output.start_logits[:, 1] + output.end_logits[:, 3]
    torch.testing.assert_close(found.output, expected.detach())
    assert_conserved(found)
    walked = wf.explain(inputs, model, method="rollout", target=wf.span(1, 3))
    whole = wf.explain(inputs, model, method="rollout", target=wf.span(1, 3), keep="maps")
    torch.testing.assert_close(walked.scores, whole.maps["text", "text"][:, [1, 3]].mean(1))
    best = wf.explain(inputs, model)
    assert (best.output >= found.output).all()


def test_regression() -> None:
    model = head_model("BertForSequenceClassification", num_labels=1)
    inputs = tiny_inputs(model)
    found = wf.explain(inputs, model, method="lrp_ah_ln", activations="identity")
    torch.testing.assert_close(found.output, model(**inputs).logits[:, 0].detach())
    assert_conserved(found)
    assert found.labels == ("score", "score")


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_causal_language_models(name: str, padding: str) -> None:
    model = families[name].tiny().double()
    inputs = tiny_inputs(model, (6, 4), padding=padding)
    found = wf.explain(
        inputs, model, method="lrp_ah_ln", target=wf.token(-1), activations="identity"
    )
    for i, length in enumerate((6, 4)):
        alone = inputs["input_ids"][i][inputs["attention_mask"][i].bool()][None]
        logits = model(input_ids=alone).logits[0, length - 1]
        assert found.target[i] == logits.argmax()
        # transformers narrows some norms to float32, which whyformer does not let it do.
        expected = logits.max().detach()
        torch.testing.assert_close(found.output[i], expected, rtol=1e-6, atol=1e-6)
    assert_conserved(found)
    assert (found.scores[inputs["attention_mask"] == 0] == 0).all()


def test_a_token_within_a_text_is_explained_by_those_before_it() -> None:
    model = families["gpt2"].tiny().double()
    inputs = tiny_inputs(model, (6,))
    for method in ("lrp_ah_ln", "gae", "transformer_attribution"):
        found = wf.explain(inputs, model, method=method, target=wf.token(2, 7))
        assert (found.scores[0, 3:] == 0).all()
        assert (found.scores[0, :3] != 0).any()


@pytest.mark.parametrize("method", ["lrp_ah_ln", "gae", "transformer_attribution"])
def test_callables_see_columns_where_the_user_put_them(method: str) -> None:
    """Padding in front is moved behind the tokens inside; a callable never notices."""
    model = families["gpt2"].tiny().double()
    right = tiny_inputs(model, (6, 4))
    left = tiny_inputs(model, (6, 4), padding="left")
    shapes = []

    def last(output: Any) -> Tensor:
        shapes.append(tuple(output.logits.shape))
        return output.logits[:, -1, 7]

    def behind(output: Any) -> Tensor:
        return output.logits[torch.arange(2), torch.tensor([5, 3]), 7]

    found = wf.explain(left, model, method=method, target=last)
    expected = wf.explain(right, model, method=method, target=behind)
    torch.testing.assert_close(found.output, expected.output)
    torch.testing.assert_close(found.scores[0], expected.scores[0])
    torch.testing.assert_close(found.scores[1, 2:], expected.scores[1, :4])
    assert (found.scores[1, :2] == 0).all()
    assert set(shapes) == {(2, 6, 60)}
    assert found.target.tolist() == [-1, -1]
    assert found.labels == ("last", "last")


# -- numbers that are none ------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_weights_that_are_not_finite(value: float) -> None:
    model = stirred(Net(Block(), Block()))
    with torch.no_grad():
        model.blocks[1].out.weight[0, 0] = value
    with pytest.raises(ModelError, match=r"NaN or infinite weights in 'blocks\.1\.out\.weight'"):
        explain(model)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_inputs_that_are_not_finite(value: float) -> None:
    x = states()
    x[0, 0, 0] = value
    with pytest.raises(InputError, match="'x' has 1 NaN or infinite values of 64"):
        explain(x=x)


def test_a_model_that_overflows() -> None:
    model = stirred(Net(Block(), Block()))
    with torch.no_grad():
        model.head.weight.fill_(1e308)
    with pytest.raises(ModelError, match="overflowed"):
        explain(model)


# -- the model and the inputs as the user has them ------------------------------------------------


def test_what_torch_compile_wrapped_is_explained() -> None:
    class Wrapped(nn.Module):
        """As torch.compile's: the module inside, called through."""

        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self._orig_mod = module

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            raise AssertionError("the compiled graph hides its operations")

    for method in METHODS:
        found = explain(Wrapped(net()), method=method)
        assert torch.equal(found.scores, explain(method=method).scores)
        assert found.provenance["model_class"] == "Net"


def test_a_model_in_training_is_explained_as_in_evaluation() -> None:
    class Dropped(Block):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(super().forward(x), 0.5, self.training)

    model = stirred(Net(Dropped(), Dropped()))
    expected = explain(model).scores
    model.train()
    model.head.eval()
    assert torch.equal(explain(model).scores, expected)
    assert model.training
    assert model.blocks[0].training
    assert not model.head.training


def test_inputs_are_left_alone() -> None:
    for method in METHODS:
        x = states()
        before = x.clone()
        explain(x=x, method=method)
        assert torch.equal(x, before)
        assert not x.requires_grad
        assert x.grad is None
        assert x._version == 0


def test_inputs_that_require_gradients_may_be_passed() -> None:
    x = states().requires_grad_()
    assert torch.equal(explain(x=x).scores, explain().scores)
    assert x.requires_grad
    assert x.grad is None
    made = states().requires_grad_() * 1
    assert torch.equal(explain(x=made).scores, explain().scores)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_gradients_switched_off_outside(context: Callable[[], Any], method: str) -> None:
    x = states()
    expected = explain(x=x, method=method).scores
    with context():
        assert torch.equal(explain(x=x, method=method).scores, expected)


@pytest.mark.parametrize("method", METHODS)
def test_inputs_made_in_inference_mode(method: str) -> None:
    with torch.inference_mode():
        x = states()
        inside = explain(x=x, method=method).scores
    assert torch.equal(inside, explain(method=method).scores)
    assert torch.equal(explain(x=x, method=method).scores, inside)


def test_a_model_built_in_inference_mode() -> None:
    with torch.inference_mode():
        model = stirred(Net(Block(), Block()))
    for method in ("lrp_ah_ln", "gae", "transformer_attribution"):
        torch.testing.assert_close(
            explain(model, method=method).scores, explain(method=method).scores
        )


# -- architectures of the user's own --------------------------------------------------------------


class Encoder(nn.Module):
    """torch's own encoder, samples or tokens first."""

    def __init__(self, batch_first: bool, **options: Any) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 12, batch_first=batch_first, **options)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head, self.batch_first = nn.Linear(WIDTH, 3), batch_first

    def forward(self, x: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        given = x if self.batch_first else x.transpose(0, 1)
        found = self.encoder(given, src_key_padding_mask=src_key_padding_mask)
        logits: Tensor = self.head(found[:, 0] if self.batch_first else found[0])
        return logits


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_encoder(batch_first: bool, norm_first: bool) -> None:
    model = stirred(Encoder(batch_first, norm_first=norm_first, activation="gelu"))
    x = states(3, 5)
    for method, options in CONSERVING:
        found = explain(model, x, method=method, **options)
        torch.testing.assert_close(found.output, model(x)[:, 1].detach())
        assert_conserved(found)
    other = stirred(Encoder(not batch_first, norm_first=norm_first, activation="gelu"))
    for method in METHODS:
        torch.testing.assert_close(
            explain(model, x, method=method).scores, explain(other, x, method=method).scores
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_own_encoder_with_padding(batch_first: bool, method: str) -> None:
    model = stirred(Encoder(batch_first))
    x = states(3, 5)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
    given = {"x": x, "src_key_padding_mask": padding}
    options = {"method": method, "target": 1, **CHEAP.get(method, {})}
    found = wf.explain(given, model, tokens="x", **options)
    assert torch.equal(found.streams["tokens"].mask, ~padding)
    assert (found.scores[padding] == 0).all()
    for i, length in enumerate((5, 3, 4)):
        alone = explain(model, x[i : i + 1, :length], method=method)
        assert_close(found.scores[i, :length], alone.scores[0])
    if found.conservation is not None and method != "integrated_gradients":
        assert_conserved(found)


class Attending(nn.Module):
    """A block around nn.MultiheadAttention, which returns its weights or not."""

    def __init__(self, batch_first: bool, weights: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=batch_first)
        self.norm, self.weights = nn.LayerNorm(WIDTH), weights

    def forward(self, x: Tensor) -> Tensor:
        mixed, _ = self.attention(x, x, x, need_weights=self.weights)
        normed: Tensor = self.norm(x + mixed)
        return normed


@pytest.mark.parametrize("method", METHODS)
def test_multihead_attention_with_and_without_weights(method: str) -> None:
    with_weights = stirred(Net(Attending(True, True), Attending(True, True)))
    without = stirred(Net(Attending(True, False), Attending(True, False)))
    x = states(3, 5)
    found = explain(with_weights, x, method=method)
    torch.testing.assert_close(found.scores, explain(without, x, method=method).scores)
    if method in ("attn_lrp", "lrp_ah_ln"):
        assert_conserved(found)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("spelling", [name for name in ATTENTIONS if name != "matmul"])
def test_attention_however_it_is_written(spelling: str, method: str) -> None:
    model = stirred(Net(Block(ATTENTIONS[spelling]), Block(ATTENTIONS[spelling])))
    # A batch with heads in its axis may be refused: nothing says which of them comes first.
    x = states(1 if spelling == "folded" else 3, 5)
    expected = explain(net(), x, method=method)
    found = explain(model, x, method=method)
    torch.testing.assert_close(found.output, expected.output)
    assert_close(found.scores, expected.scores)


@pytest.mark.parametrize("spelling", ATTENTIONS)
def test_attention_conserves_however_it_is_written(spelling: str) -> None:
    model = stirred(Net(Block(ATTENTIONS[spelling]), Block(ATTENTIONS[spelling])))
    x = states(1 if spelling == "folded" else 3, 5)
    for method, options in CONSERVING:
        assert_conserved(explain(model, x, method=method, **options))


class HeadsOutside(Block):
    """Samples and heads in one axis, heads outside, as the first transformer code had it."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (torch.cat(part.chunk(2, -1), 0) for part in (q, k, v))
        mixed = torch.cat(matmul(q, k, v).chunk(2, 0), -1)
        x = x + self.out(mixed)
        return x + self.down(torch.relu(self.up(self.second(x))))


@pytest.mark.parametrize("method", METHODS)
def test_heads_outside_samples_are_told_apart_or_refused(method: str) -> None:
    model = stirred(Net(HeadsOutside(), HeadsOutside()))
    x = states(3, 5)
    try:
        found = explain(model, x, method=method)
    except ModelError:
        return
    for i in range(3):
        alone = explain(model, x[i : i + 1], method=method)
        torch.testing.assert_close(found.scores[i], alone.scores[0])
    if found.conservation is not None and method == "attn_lrp":
        assert_conserved(found)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_written_by_hand_conserve(activation: str) -> None:
    block = ACTIVATIONS[activation]
    model = stirred(Net(Block(activation=block), Block(activation=block)))
    for method, options in CONSERVING:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConservationWarning)
            assert_conserved(explain(model, method=method, **options))


@pytest.mark.parametrize(("method", "options"), CONSERVING)
@pytest.mark.parametrize("spelling", ["gelu by erf", "gelu, gate first"])
def test_spellings_of_one_activation_give_one_explanation(
    spelling: str, method: str, options: dict[str, Any]
) -> None:
    block = ACTIVATIONS[spelling]
    model = stirred(Net(Block(activation=block), Block(activation=block)))
    plain = stirred(Net(Block(activation=F.gelu), Block(activation=F.gelu)))
    found = explain(model, method=method, **options).scores
    assert_close(found, explain(plain, method=method, **options).scores)


# -- operations without a rule --------------------------------------------------------------------


class Odd(Block):
    """A block with an operation that has no rule, on or off the way of the tokens."""

    def __init__(self, name: str, on_path: bool) -> None:
        super().__init__()
        self.name, self.on_path = name, on_path

    def forward(self, x: Tensor) -> Tensor:
        operation = {"sin": torch.sin, "cumprod": lambda t: torch.cumprod(t, -1)}[self.name]
        x = super().forward(x)
        if self.on_path:
            return x + operation(x)
        operation(x)  # computed and dropped
        constant = torch.arange(WIDTH, dtype=x.dtype) + 1
        return x + operation(constant) / 100


@pytest.mark.parametrize(("method", "options"), CONSERVING)
@pytest.mark.parametrize("name", ["sin", "cumprod"])
def test_an_operation_that_loses_relevance_is_named(
    name: str, method: str, options: dict[str, Any]
) -> None:
    model = stirred(Net(Odd(name, on_path=False), Odd(name, on_path=True)))
    with pytest.warns(ConservationWarning, match=rf"no rule and lost a share of it: {name} \("):
        found = explain(model, method=method, **options)
    assert ((found.conservation - 1).abs() > 1e-6).all()


@pytest.mark.parametrize("method", [m for m in METHODS if m not in CONSERVING_NAMES])
def test_methods_that_promise_nothing_do_not_warn(method: str) -> None:
    model = stirred(Net(Odd("sin", on_path=False), Odd("sin", on_path=True)))
    try:
        explain(model, method=method)  # warnings are errors here
    except ModelError as error:
        assert "rules" in wf.methods()[method].options, error  # noqa: PT017
        assert "'sin'" in str(error)  # noqa: PT017


@pytest.mark.parametrize(("method", "options"), CONSERVING)
@pytest.mark.parametrize("name", ["sin", "cumprod"])
def test_an_operation_off_the_way_is_no_matter(
    name: str, method: str, options: dict[str, Any]
) -> None:
    model = stirred(Net(Odd(name, on_path=False), Odd(name, on_path=False)))
    assert_conserved(explain(model, method=method, **options))


# -- checkpointing --------------------------------------------------------------------------------


class Saving(Block):
    """A block that computes itself again on the way back."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = checkpoint(super().forward, x, use_reentrant=self.reentrant)
        return found


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpointing_makes_no_difference(reentrant: bool, method: str) -> None:
    model = stirred(Net(Saving(reentrant), Saving(reentrant)))
    found = explain(model, method=method)
    torch.testing.assert_close(found.scores, explain(method=method).scores)


def test_checkpointing_of_transformers_models() -> None:
    """They switch it on for training only, and an explanation is none."""
    model = families["bert"].tiny().double()
    expected = wf.explain(tiny_inputs(model), model, target=1).scores
    model.train()
    model.gradient_checkpointing_enable()
    assert torch.equal(wf.explain(tiny_inputs(model), model, target=1).scores, expected)


# -- provenance -----------------------------------------------------------------------------------


def test_provenance() -> None:
    model = families["bert"].tiny()
    found = wf.explain(tiny_inputs(model), model, method="gae", target=1, start_layer=1).provenance
    assert found["model"] == "BertForSequenceClassification"
    assert found["model_class"] == "BertForSequenceClassification"
    assert found["family"] == "bert"
    assert found["dtype"] == "float32"
    assert found["device"] == "cpu"
    assert found["versions"]["torch"] == version("torch")
    assert found["versions"]["transformers"] == version("transformers")
    assert set(found["versions"]) == {"whyformer", "torch", "transformers"}
    assert found["notes"] == []


def test_provenance_of_ones_own_model() -> None:
    found = explain().provenance
    assert found["family"] == "default"
    assert found["dtype"] == "float64"


@pytest.mark.parametrize("method", METHODS)
def test_the_result_names_every_option_of_its_method(method: str) -> None:
    if wf.methods()[method].alias:
        pytest.skip("it names the method that it chose: tests/methods/test_blend.py")
    known = wf.methods()[method].options
    assert dict(explain(method=method).options) == {**known, **CHEAP.get(method, {})}
    assert explain(method=method).method == method


def test_options_that_were_given_are_told() -> None:
    found = explain(method="rollout", start_layer=1, normalize=False)
    assert found.options["start_layer"] == 1
    assert found.options["normalize"] is False
