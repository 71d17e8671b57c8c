"""Detach rules of activations and gated products."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.engine.rules.detach.tables import detach_table

Random = Callable[..., Tensor]
IDENTITY = detach_table(attention="detach", norm="detach", activation="identity", product="gate")
ATTN_LRP = detach_table(
    attention="uniform", norm="detach", activation="identity", product="uniform"
)
PLAIN = detach_table(attention="detach", norm="detach")


def gelu_new(x: Tensor) -> Tensor:
    """GELU as GPT-2 and ALBERT write it: eight operations that are one activation."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
    return 0.5 * x * (1.0 + torch.tanh(inner))


SIMPLE: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "silu_module": nn.SiLU(),
    "mish": F.mish,
    "elu": F.elu,
    "tanh": torch.tanh,
    "tanh_method": lambda x: x.tanh(),
    "tanh_module": nn.Tanh(),
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "soft_cap": lambda x: torch.tanh(x / 30.0) * 30.0,
}
COMPOSITE: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu_new": gelu_new,
    "gelu_fast": lambda x: (
        0.5 * x * (1.0 + torch.tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))
    ),
    "gelu_erf": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "hand_silu": lambda x: x * x.sigmoid(),
}


@pytest.mark.parametrize("name", {**SIMPLE, **COMPOSITE})
def test_identity_passes_relevance_unchanged(through: Any, random: Random, name: str) -> None:
    activation = {**SIMPLE, **COMPOSITE}[name]
    x = random(2, 6)
    x = x.abs() if name == "relu" else x  # where relu is 0 there is no relevance to pass
    relevance = random(2, 6)
    passed = through(activation, (x,), IDENTITY, relevance)
    torch.testing.assert_close(passed.relevance[0], relevance)
    assert all(not sink.any() for sink in passed.sinks.values())


@pytest.mark.parametrize("name", {**SIMPLE, **COMPOSITE})
def test_attn_lrp_conserves_through_activations(through: Any, random: Random, name: str) -> None:
    x, relevance = random(2, 6), random(2, 6)
    x = x.abs() if name == "relu" else x
    passed = through({**SIMPLE, **COMPOSITE}[name], (x,), ATTN_LRP, relevance)
    handed_out = passed.relevance[0].sum(dim=1) + sum(passed.sinks.values())
    torch.testing.assert_close(handed_out, relevance.sum(dim=1))


@pytest.mark.parametrize("name", {**SIMPLE, **COMPOSITE})
def test_gradient_is_the_default(through: Any, random: Random, name: str) -> None:
    """AH and LN rules leave activations to autograd."""
    activation = {**SIMPLE, **COMPOSITE}[name]
    x, relevance = random(2, 6), random(2, 6)
    x = x.abs() if name == "relu" else x
    leaf = x.clone().requires_grad_()
    output = activation(leaf)
    (gradient,) = torch.autograd.grad(output, leaf, relevance / output.detach())
    passed = through(activation, (x,), PLAIN, relevance)
    torch.testing.assert_close(passed.relevance[0], x * gradient)


GATED: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "silu": lambda gate, up: F.silu(gate) * up,
    "silu_last": lambda gate, up: up * F.silu(gate),
    "gelu": lambda gate, up: F.gelu(gate, approximate="tanh") * up,
    "sigmoid": lambda gate, up: torch.sigmoid(gate) * up,
    "in_place": lambda gate, up: up.clone().mul_(F.silu(gate)),
}


@pytest.mark.parametrize("name", GATED)
def test_a_gate_takes_nothing(through: Any, random: Random, name: str) -> None:
    gate, up, relevance = random(2, 6), random(2, 6), random(2, 6)
    passed = through(GATED[name], (gate, up), IDENTITY, relevance)
    assert not passed.relevance[0].any()
    torch.testing.assert_close(passed.relevance[1], relevance)


@pytest.mark.parametrize("name", ["silu", "silu_last", "gelu"])
def test_attn_lrp_shares_a_gated_product(through: Any, random: Random, name: str) -> None:
    """Half to each factor (proposition 3.3); the gate passes its half unchanged."""
    gate, up, relevance = random(2, 6), random(2, 6), random(2, 6)
    passed = through(GATED[name], (gate, up), ATTN_LRP, relevance)
    torch.testing.assert_close(passed.relevance[0], relevance / 2)
    torch.testing.assert_close(passed.relevance[1], relevance / 2)


def test_the_offset_of_an_activation_at_zero_is_a_sink(through: Any) -> None:
    """sigmoid(0) = 1/2 does not depend on the input."""
    x = torch.zeros(1, 2, dtype=torch.float64)
    passed = through(torch.sigmoid, (x,), IDENTITY, torch.ones_like(x))
    assert not passed.relevance[0].any()
    torch.testing.assert_close(sum(passed.sinks.values()), torch.tensor([2.0]).double())
