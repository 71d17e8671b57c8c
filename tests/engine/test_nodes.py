"""keep="nodes": relevance of layer states, heads and units, against hooks and plain autograd."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.methods.test_by_hand import CLASS, Constants, bert, heads, norm, one, states_of
from tests.several import only, target_of
from whyformer.attribution import Nodes
from whyformer.errors import OptionError
from whyformer.models.families.tiny import tiny_inputs, tiny_models

HEADS = 4
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}  # transformers narrows some norms and softmaxes
pytestmark = pytest.mark.filterwarnings("ignore::whyformer.errors.ConservationWarning")


class Paths(NamedTuple):
    """Where transformers has a model's blocks, and in a block the two linear layers."""

    blocks: str
    after_heads: str
    after_units: str


PATHS = {
    "bert": Paths("bert.encoder.layer", "attention.output.dense", "output.dense"),
    "gpt2": Paths("transformer.h", "attn.c_proj", "mlp.c_proj"),
    "vit": Paths("vit.layers", "attention.o_proj", "mlp.fc2"),
    "llama": Paths("model.layers", "self_attn.o_proj", "mlp.down_proj"),
}


@cache
def model_of(name: str, **changes: Any) -> Any:
    return tiny_models()[name][1](**changes).double()


def explain(name: str, method: str = "lrp_ah_ln", **options: Any) -> wf.Attribution:
    if method == "lrp_ah_ln":
        options = {"activations": "identity", **options}
    model = model_of(name)
    return wf.explain(
        tiny_inputs(model, (7, 5)), model, method=method, target=CLASS, keep="nodes", **options
    )


def inputs_of(module: nn.Module, seen: list[Tensor]) -> Any:
    def before(part: nn.Module, args: tuple, kwargs: dict[str, Any]) -> None:
        seen.append(args[0] if args else kwargs["hidden_states"])

    return module.register_forward_pre_hook(before, with_kwargs=True)


def slow_nodes(name: str) -> Nodes:
    """Activation x gradient of one sample by hooks on transformers' modules, no rules."""
    model, paths = model_of(name), PATHS[name]
    seen: dict[str, list[Tensor]] = {"states": [], "heads": [], "units": []}
    handles = []
    for block in model.get_submodule(paths.blocks):
        handles.append(inputs_of(block, seen["states"]))
        handles.append(inputs_of(block.get_submodule(paths.after_heads), seen["heads"]))
        handles.append(inputs_of(block.get_submodule(paths.after_units), seen["units"]))
    logits = model(**tiny_inputs(model, (6,))).logits[0]
    for handle in handles:
        handle.remove()
    value = logits[CLASS] if logits.dim() == 1 else logits[-1, CLASS]
    found = {}
    for part, tensors in seen.items():
        slopes = torch.autograd.grad(value, tensors, retain_graph=True)
        found[part] = [(t * g).detach() for t, g in zip(tensors, slopes, strict=True)]
    return Nodes(
        states=torch.stack([r.sum(-1) for r in found["states"]], 1),
        heads=torch.stack(
            [r.unflatten(-1, (HEADS, -1)).sum(-1).transpose(1, 2) for r in found["heads"]], 1
        ),
        units=torch.stack([r.sum(1) for r in found["units"]], 1),
    )


@pytest.mark.parametrize("name", PATHS)
def test_the_nodes_are_where_hooks_find_them(name: str) -> None:
    model = model_of(name)
    (found,) = wf.explain(
        tiny_inputs(model, (6,)), model, method="gradient_x_input", target=CLASS, keep="nodes"
    ).nodes.values()
    expected = slow_nodes(name)
    for part, tensor in expected.tensors.items():
        assert tensor.abs().max() > 1e-3
        torch.testing.assert_close(found.tensors[part], tensor, **TOLERANCE)
    assert found.sinks is None, "this method conserves nothing"


def test_under_the_rules_against_a_bert_written_out() -> None:
    """Ali et al.'s two detaches; constants above a layer take what the states do not hold."""
    model, constants = bert("relu"), Constants(attention=True, deviation=True)
    x = states_of(model, one(model)["input_ids"]).requires_grad_()
    states, mixed, inner = [], [], []
    for layer in model.bert.encoder.layer:
        states.append(x)
        own = layer.attention.self
        q, k, v = (heads(part(x), HEADS) for part in (own.query, own.key, own.value))
        weights = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).softmax(-1).detach()
        mixed.append(weights @ v)
        out = layer.attention.output.dense(mixed[-1].transpose(1, 2).flatten(2))
        x = norm(out + x, layer.attention.output.LayerNorm, constants)
        inner.append(layer.intermediate.intermediate_act_fn(layer.intermediate.dense(x)))
        x = norm(layer.output.dense(inner[-1]) + x, layer.output.LayerNorm, constants)
    pooled = torch.tanh(model.bert.pooler.dense(x[:, 0]))
    value = model.classifier(pooled)[0, CLASS]

    def relevance(tensors: list[Tensor]) -> list[Tensor]:
        slopes = torch.autograd.grad(value, tensors, retain_graph=True)
        return [(t * g).detach() for t, g in zip(tensors, slopes, strict=True)]

    nodes = wf.explain(one(model), model, target=CLASS, method="lrp_ah_ln", keep="nodes").nodes
    found = nodes["text"]
    for ours, expected in (
        (found.states, [r.sum(-1) for r in relevance(states)]),
        (found.heads, [r.sum(-1) for r in relevance(mixed)]),
        (found.units, [r.sum(1) for r in relevance(inner)]),
    ):
        torch.testing.assert_close(ours, torch.stack(expected, 1))
    above = torch.zeros((), dtype=torch.float64)
    modules = (model.classifier, model.bert.pooler, *reversed(model.bert.encoder.layer))
    for i, module in enumerate(modules):
        # Biases of keys have no gradient: the weights are constants.
        biases = [b for n, b in module.named_parameters() if n.endswith("bias")]
        slopes = torch.autograd.grad(value, biases, retain_graph=True, allow_unused=True)
        above = above + sum(
            (b * g).sum() for b, g in zip(biases, slopes, strict=True) if g is not None
        )
        if i > 1:
            layer_index = len(states) - 1 - (i - 2)
            torch.testing.assert_close(found.sinks[0, layer_index], above.detach())


@pytest.mark.parametrize("method", ["lrp_ah_ln", "attn_lrp", "libragrad"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "vit", "llama", "gemma2", "modernbert", "vilt"])
def test_every_layer_conserves(name: str, method: str) -> None:
    attribution = explain(name, method)
    (found,) = attribution.nodes.values()
    total = found.states.sum(2) + found.sinks
    expected = attribution.output.unsqueeze(1).expand_as(total)
    torch.testing.assert_close(total, expected, rtol=1e-10, atol=1e-10)
    assert found.heads.shape[:3] == (2, 2, HEADS)
    assert found.units.shape == (2, 2, 48)
    assert all(tensor.any() for tensor in (found.heads, found.units))


def test_the_lowest_states_are_the_scores() -> None:
    attribution = explain("bert")
    assert torch.equal(attribution.nodes["text"].states[:, 0], attribution.scores)


@pytest.mark.parametrize("name", ["bert", "t5", "detr", "lxmert", "vit"])
def test_batches_padding_and_kernels_change_nothing(name: str) -> None:
    model, eager = model_of(name), model_of(name, attn_implementation="eager")
    inputs = tiny_inputs(model, (7, 5))
    options = {"method": "lrp_ah_ln", "activations": "identity", "keep": "nodes"}
    together = wf.explain(inputs, model, target=target_of(name), **options)
    alone = wf.explain(only(model, inputs, 1), model, target=target_of(name), **options)
    unfused = wf.explain(inputs, eager, target=target_of(name), **options)
    for stack, expected in together.nodes.items():
        for part, tensor in expected.sample(1).tensors.items():
            ours = alone.nodes[stack].tensors[part]
            if part in ("states", "heads"):
                assert not tensor[..., ours.shape[-1] :].any(), "relevance at padding"
                tensor = tensor[..., : ours.shape[-1]]
            torch.testing.assert_close(ours, tensor, rtol=0, atol=1e-9)
        for part, tensor in expected.tensors.items():
            torch.testing.assert_close(unfused.nodes[stack].tensors[part], tensor, **TOLERANCE)


def test_left_padding_comes_back() -> None:
    model = model_of("bert")
    right, left = (
        wf.explain(
            tiny_inputs(model, (7, 5), padding=side), model, method="attn_lrp", keep="nodes"
        ).nodes["text"]
        for side in ("right", "left")
    )
    for part in ("states", "heads"):
        torch.testing.assert_close(left.tensors[part][1, ..., 2:], right.tensors[part][1, ..., :5])
        assert not left.tensors[part][1, ..., :2].any()
    torch.testing.assert_close(left.units, right.units)


def test_an_encoder_decoder_names_what_heads_attend_to() -> None:
    nodes = wf.explain(
        tiny_inputs(model_of("t5"), (7, 5)),
        model_of("t5"),
        method="attn_lrp",
        target=CLASS,
        keep="nodes",
    ).nodes
    assert nodes["source"].answering == ("source",) * 2
    assert nodes["generated"].answering == ("generated", "source") * 2
    assert nodes["generated"].heads.shape[1] == 4
    assert nodes["generated"].sinks is None


def test_saving_indexing_and_plain_data(tmp_path: Path) -> None:
    attribution = explain("bert")
    attribution.save(tmp_path / "a.safetensors")
    loaded = wf.load(tmp_path / "a.safetensors").nodes["text"]
    nodes = attribution.nodes["text"]
    assert loaded.answering == nodes.answering
    assert loaded.tensors.keys() == nodes.tensors.keys()
    for part, tensor in nodes.tensors.items():
        assert torch.equal(loaded.tensors[part], tensor)
        assert torch.equal(attribution[1].nodes["text"].tensors[part], tensor[1:])
    plain = json.loads(attribution.to_json())["nodes"]["text"]
    torch.testing.assert_close(torch.tensor(plain["units"]).double(), nodes.units)
    assert repr(nodes) == "<Nodes states 2x2x7, heads 2x2x4x7, units 2x2x48, sinks 2x2>"


def test_nothing_is_kept_unless_asked_for() -> None:
    model = model_of("bert")
    attribution = wf.explain(tiny_inputs(model), model, method="attn_lrp")
    assert not attribution.nodes
    assert "nodes" not in attribution.to_dict()


def test_a_method_without_nodes_says_what_it_can_keep() -> None:
    model = model_of("bert")
    with pytest.raises(OptionError, match="'gae' cannot keep 'nodes'"):
        wf.explain(tiny_inputs(model), model, method="gae", keep="nodes")


# -- models that no family declares ---------------------------------------------------------------


class Block(nn.Module):
    """A block with einsum attention, and an MLP that may be gated, sparse or not there."""

    def __init__(self, mlp: str) -> None:
        super().__init__()
        self.mlp = mlp
        self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
        self.gate, self.up, self.down = nn.Linear(8, 12), nn.Linear(8, 12), nn.Linear(12, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).unbind(2)  # (batch, token, head, feature)
        attention = torch.einsum("bqhd,bkhd->bhqk", q, k).softmax(-1)
        self.mixed = torch.einsum("bhqk, bkhd -> bqhd", attention, v)
        x = x + self.out(self.mixed.flatten(2))
        if self.mlp == "none":
            return x
        if self.mlp == "overwrites":
            x += self.down(torch.relu(self.up(x)))
            return x
        if self.mlp == "sparse":
            first = self.down(torch.relu(self.up(x[:, :1])))
            return x + torch.cat((first, torch.zeros_like(x[:, 1:])), 1)
        self.inner = torch.nn.functional.silu(self.gate(x)) * self.up(x)
        return x + self.down(self.inner)


class Net(nn.Module):
    def __init__(self, mlp: str) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(mlp) for _ in range(2))
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        logits: Tensor = self.head(x[:, 0])
        return logits


def nodes_of(net: nn.Module, **options: Any) -> tuple[Nodes, Tensor]:
    torch.manual_seed(1)
    x = torch.randn(2, 5, 8, dtype=torch.float64)
    found = wf.explain(
        {"x": x}, net.double().eval(), target=CLASS, tokens="x", keep="nodes", **options
    )
    return found.nodes[found.main], x


def test_einsum_and_a_gated_mlp() -> None:
    net = Net("gated")
    found, x = nodes_of(net, method="gradient_x_input")
    value = net(x)[:, CLASS].sum()
    for layer, block in enumerate(net.blocks):
        mixed, inner = torch.autograd.grad(value, (block.mixed, block.inner), retain_graph=True)
        expected = (block.mixed * mixed).sum(-1).transpose(1, 2)
        torch.testing.assert_close(found.heads[:, layer], expected.detach())
        torch.testing.assert_close(found.units[:, layer], (block.inner * inner).sum(1).detach())


@pytest.mark.parametrize("mlp", ["none", "sparse"])
def test_blocks_without_an_mlp_for_all_tokens_have_no_units(mlp: str) -> None:
    found, _ = nodes_of(Net(mlp), method="attn_lrp")
    assert found.units is None
    assert found.heads is not None
    assert found.states is not None
    assert "units" not in repr(found)


def test_torch_layers_with_tokens_first() -> None:
    torch.manual_seed(0)

    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(8, 2, 12, activation="gelu")
            self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.head(self.encoder(x.transpose(0, 1))[0])
            return logits

    found, _ = nodes_of(Tokens(), method="lrp_ah_ln", activations="identity")
    assert found.states.shape == (2, 2, 5)
    assert found.heads.shape == (2, 2, 2, 5)
    assert found.units.shape == (2, 2, 12)
