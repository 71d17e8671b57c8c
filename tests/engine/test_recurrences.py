"""Models with blocks that run a recurrence: relevance goes through its values, and adds up."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import WIDTH, Attention, Classifier

IDS = {"ids": torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 3]])}
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("libragrad", {}),
    ("attn_lrp", {}),
    ("lrp_ah_ln", {"activations": "identity"}),
]


def delta_rule(query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor) -> Tensor:
    """The gated delta rule with one head, token by token; g and beta are (batch, token, 1)."""
    state = value.new_zeros(len(value), WIDTH, WIDTH)
    outputs = []
    for t in range(value.shape[1]):
        state = state * g[:, t, :, None].exp()
        update = beta[:, t] * (value[:, t] - torch.einsum("bk,bkv->bv", key[:, t], state))
        state = state + torch.einsum("bk,bv->bkv", key[:, t], update)
        outputs.append(torch.einsum("bk,bkv->bv", query[:, t], state))
    return torch.stack(outputs, 1)


class DeltaRule(nn.Module):
    """A mixer by the delta rule."""

    detached = False  # whether it detaches what decides the mixing itself

    def __init__(self) -> None:
        super().__init__()
        self.inputs = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.gates = nn.Linear(WIDTH, 2)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = (part(x) for part in self.inputs)
        g, beta = self.gates(x).sigmoid().chunk(2, -1)
        if self.detached:
            query, key, g, beta = (part.detach() for part in (query, key, g, beta))
        return delta_rule(query / WIDTH, key / WIDTH, value, g=-g, beta=beta)


class Detached(DeltaRule):
    detached = True


class Decay(nn.Module):
    """A mean over earlier tokens with learned decays, written into the block itself."""

    def __init__(self) -> None:
        super().__init__()
        self.value, self.decay = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        decay = torch.exp(-self.decay(x).square())
        state = torch.zeros_like(x[:, 0])
        outputs = []
        for value, keep in zip(self.value(x).unbind(1), decay.unbind(1), strict=True):
            state = keep * state + (1 - keep) * value
            outputs.append(state)
        return torch.stack(outputs, 1)


class Fourier(nn.Module):
    """The Fourier transform over tokens and features, as in FNet: it is linear."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.fft.fftn(x, dim=(1, 2)).real


def explain(model: nn.Module, method: str, **options: Any) -> wf.Attribution:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return wf.explain(IDS, model, method=method, target=1, blocks="blocks", **options)


@pytest.mark.parametrize(("method", "options"), METHODS)
@pytest.mark.parametrize("mixer", [DeltaRule, Decay, Fourier])
def test_scores_and_sinks_add_up(mixer: Any, method: str, options: dict[str, Any]) -> None:
    found = explain(Classifier(mixer, Attention), method, **options)
    assert found.conservation is not None
    torch.testing.assert_close(found.conservation, torch.ones(2).double(), rtol=0, atol=1e-8)


@pytest.mark.parametrize(("method", "options"), METHODS)
def test_what_decides_the_mixing_is_a_constant(method: str, options: dict[str, Any]) -> None:
    found = explain(Classifier(DeltaRule, Attention), method, **options)
    expected = explain(Classifier(Detached, Attention), method, **options)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-9, atol=1e-12)


def test_gradient_x_input_follows_the_whole_gradient() -> None:
    model = Classifier(DeltaRule)
    states = model.embedding(IDS["ids"]).detach().requires_grad_()
    value = model.head(model.blocks[0](states)[:, 0])[:, 1].sum()
    (gradient,) = torch.autograd.grad(value, states)
    found = explain(model, "gradient_x_input")
    torch.testing.assert_close(found.scores, (states * gradient).sum(-1).detach())


@pytest.mark.parametrize("method", ["attn_lrp", "lrp_ah"])
def test_methods_with_a_rule_for_mixing_need_no_attention(method: str) -> None:
    assert explain(Classifier(DeltaRule), method).scores.any()


def test_the_default_method_needs_no_warning() -> None:
    assert explain(Classifier(DeltaRule, Attention), "auto").trust
