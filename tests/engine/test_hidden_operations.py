"""Operations that no rule can see: found, named, measured; and models that fail."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from whyformer.engine.block_search import search_blocks
from whyformer.errors import ConservationWarning, ModelError

IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 3], [2, 2, 1, 0, 4]])
CONSERVING: list[tuple[str, dict[str, Any]]] = [
    ("libragrad", {}),
    ("attn_lrp", {}),
    ("lrp_ah_ln", {"activations": "identity"}),
]


class Swish(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        gate = torch.sigmoid(x)
        return gradient * (gate + x * gate * (1 - gate))


class Foreign(Swish):
    """Leaves torch, so its operations cannot be followed."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() / (1 + np.exp(-x.detach().numpy())))


def scripted() -> Callable[[Tensor], Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(nn.SiLU())


def traced() -> Callable[[Tensor], Tensor]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(nn.SiLU(), torch.randn(2, 3))


class Activation(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class Block(nn.Module):
    def __init__(self, activation: Callable[[Tensor], Tensor], alone: bool = False) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(16), nn.LayerNorm(16)])
        self.inputs = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.output = nn.Linear(16, 16)
        self.mlp = nn.Sequential(nn.Linear(16, 24), Activation(activation), nn.Linear(24, 16))
        self.alone = alone

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.transpose(-1, -2) / 2).softmax(-1) @ v

    def forward(self, x: Tensor) -> Tensor:
        h = self.norms[0](x)
        q, k, v = (part(h).unflatten(-1, (4, 4)).transpose(1, 2) for part in self.inputs)
        if self.alone:  # each sample for itself
            mixed = torch.stack([self.attend(q[i], k[i], v[i]) for i in range(len(x))])
        else:
            mixed = self.attend(q, k, v)
        x = x + self.output(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class Net(nn.Module):
    def __init__(self, activation: Any = nn.functional.silu, alone: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(10, 16)
        self.blocks = nn.ModuleList([Block(activation, alone) for _ in range(3)])
        self.head = nn.Linear(16, 3)
        self.double().eval()

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


def explain(net: nn.Module, method: str, ids: Tensor = IDS, **options: Any) -> wf.Attribution:
    return wf.explain({"input_ids": ids}, net, method=method, target=1, **options)


HIDDEN: dict[str, tuple[Callable[[], Any], str]] = {
    "function": (lambda: Foreign.apply, "the autograd function Foreign"),
    "scripted": (scripted, "code compiled by torch.jit"),
    "traced": (traced, "code compiled by torch.jit"),
}


@pytest.mark.parametrize(("method", "options"), CONSERVING)
@pytest.mark.parametrize("name", HIDDEN)
def test_the_loss_has_a_name_and_the_right_size(
    name: str, method: str, options: dict[str, Any]
) -> None:
    make, expected = HIDDEN[name]
    net = Net(make())
    with pytest.warns(ConservationWarning, match=expected):
        found = explain(net, method, **options)
    assert (found.conservation - 1).abs().max() > 1e-3


@pytest.mark.parametrize("name", HIDDEN)
def test_relevance_rules_refuse_what_they_cannot_see(name: str) -> None:
    make, expected = HIDDEN[name]
    with pytest.raises(ModelError, match=expected):
        explain(Net(make()), "transformer_attribution")


@pytest.mark.parametrize("name", HIDDEN)
def test_attention_methods_follow_the_gradient_through_it(name: str) -> None:
    expected = explain(Net(), "gae").scores
    torch.testing.assert_close(explain(Net(HIDDEN[name][0]()), "gae").scores, expected)


@pytest.mark.parametrize("name", HIDDEN)
def test_the_blocks_around_it_are_found(name: str) -> None:
    """Compiled code takes no hooks; the modules around it do."""
    chain = search_blocks(Net(HIDDEN[name][0]()), {"input_ids": IDS}, len(IDS))
    assert chain is not None
    assert chain.blocks == ("blocks.0", "blocks.1", "blocks.2")


@pytest.mark.parametrize(("method", "options"), CONSERVING)
def test_relu_in_place_conserves_and_equals_relu(method: str, options: dict[str, Any]) -> None:
    found = explain(Net(nn.ReLU(inplace=True)), method, **options)
    torch.testing.assert_close(found.conservation, torch.ones(3).double(), rtol=0, atol=1e-8)
    torch.testing.assert_close(found.scores, explain(Net(nn.ReLU()), method, **options).scores)


@pytest.mark.parametrize(("method", "options"), CONSERVING)
def test_an_operator_of_aten_has_the_rule_of_its_function(
    method: str, options: dict[str, Any]
) -> None:
    found = explain(Net(torch.ops.aten.silu), method, **options)
    torch.testing.assert_close(found.scores, explain(Net(), method, **options).scores)


@pytest.mark.parametrize(("method", "options"), CONSERVING)
def test_samples_that_the_model_computes_alone_pay_for_themselves(
    method: str, options: dict[str, Any]
) -> None:
    net = Net(alone=True)
    found = explain(net, method, **options)
    torch.testing.assert_close(found.conservation, torch.ones(3).double(), rtol=0, atol=1e-8)
    for i in range(3):
        single = explain(net, method, IDS[i : i + 1], **options)
        torch.testing.assert_close(found.scores[i], single.scores[0])
        for name, sink in single.sinks.items():
            torch.testing.assert_close(found.sinks[name][i], sink[0])


# -- models that fail -----------------------------------------------------------------------------


class Fails(Net):
    def forward(self, input_ids: Tensor) -> Tensor:
        super().forward(input_ids)
        raise KeyError("pixel_values")


class FailsUnderRules(Net):
    def forward(self, input_ids: Tensor) -> Tensor:
        output = super().forward(input_ids)
        assert not output.requires_grad, "no gradients here"
        return output


class Overwrites(Net):
    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        product = x * x.exp()
        x.data.mul_(2.0)
        x[:, 0] = 1.0
        return self.head(product[:, 0])


@pytest.mark.parametrize("method", ["attn_lrp", "gae", "occlusion"])
def test_a_model_that_fails_by_itself_says_so(method: str) -> None:
    with pytest.raises(ModelError, match=r"KeyError.*without whyformer too"):
        explain(Fails(), method)


@pytest.mark.parametrize("method", ["attn_lrp", "gae"])
def test_a_model_that_fails_only_under_rules_is_our_fault(method: str) -> None:
    with pytest.raises(ModelError, match=r"AssertionError: no gradients here.*fault of whyformer"):
        explain(FailsUnderRules(), method)


def test_our_own_refusals_pass_unchanged() -> None:
    with pytest.raises(ModelError) as caught:
        explain(Net(Foreign.apply), "transformer_attribution")
    assert "fault of whyformer" not in str(caught.value)


@pytest.mark.parametrize("method", ["gradient_x_input", "gae"])
def test_a_backward_that_torch_refuses_is_named(method: str) -> None:
    with pytest.raises(ModelError, match="overwrites a tensor that its gradient needs"):
        explain(Overwrites(), method)
