"""Relevance rules of activations, norms, sums, products and quotients, against slow twins."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.rules.relevance.twins import (
    Random,
    add,
    close,
    send_back,
    weights,
)

# -- one in, one out: relevance passes unchanged -------------------------------------------------


def gelu_new(x: Tensor) -> Tensor:
    cubed = x + 0.044715 * torch.pow(x, 3.0)
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * cubed))


def layer_norm_by_hand(x: Tensor) -> Tensor:
    mean = x.mean(-1, keepdim=True)
    variance = (x - mean).pow(2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-6)


GAIN = nn.Parameter(torch.tensor([0.5, -2.0, 3.0, 0.1], dtype=torch.float64))
OFFSET = nn.Parameter(torch.tensor([1.0, -1.0, 0.2, 3.0], dtype=torch.float64))
UNCHANGED: dict[str, Callable[[Tensor], Tensor]] = {
    "layer_norm": lambda x: F.layer_norm(x, (4,), GAIN, OFFSET),
    "layer_norm_module": nn.LayerNorm(4).double(),
    "layer_norm_by_hand": lambda x: layer_norm_by_hand(x) * GAIN + OFFSET,
    "rms_norm": lambda x: F.rms_norm(x, (4,), GAIN),
    "rms_norm_module": nn.RMSNorm(4).double(),
    "rms_norm_by_hand": lambda x: GAIN * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)),
    "rms_norm_divided": lambda x: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6),
    "l2_norm": lambda x: x / x.norm(dim=-1, keepdim=True),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "gelu_module": nn.GELU(),
    "gelu_new": gelu_new,
    "gelu_erf": lambda x: x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0))),
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "silu": F.silu,
    "silu_by_hand": lambda x: torch.sigmoid(x) * x,
    "relu": F.relu,
    "relu_module": nn.ReLU(),
    "relu_method": lambda x: x.relu(),
    "relu_in_place": lambda x: F.relu(x, inplace=True),
    "relu_in_place_behind_a_norm": lambda x: F.relu(F.layer_norm(x, (4,)), inplace=True),
    "silu_in_place": lambda x: F.silu(x * 1.0, inplace=True),
    "tanh_in_place": lambda x: (x * 1.0).tanh_(),
    "relu_squared": lambda x: F.relu(x).square(),
    "leaky_relu": F.leaky_relu,
    "tanh": torch.tanh,
    "tanh_module": nn.Tanh(),
    "sigmoid": torch.sigmoid,
    "softmax": lambda x: torch.softmax(x, -1),
    "softmax_method": lambda x: x.softmax(dim=-1),
    "softmax_function": lambda x: F.softmax(x, dim=-1, dtype=torch.float64),
    "softmax_module": nn.Softmax(dim=-1),
    "dropout": nn.Dropout(0.5).eval(),
    "number": lambda x: x * 0.25,
    "number_first": lambda x: -3 * x,
    "number_in_place": lambda x: (x + 0).mul_(7),
    "divided": lambda x: x / math.sqrt(8),
    "divided_method": lambda x: x.div(-2.0),
    "times_a_reciprocal": lambda x: x * (1 / x.norm(dim=-1, keepdim=True)),
    "layer_scale": lambda x: x * GAIN,
    "layer_scale_first": lambda x: torch.mul(GAIN, x),
    "scale_parameter": lambda x: GAIN[0].exp() * x,
    "number_added": lambda x: x + 1,
    "number_subtracted": lambda x: x - 2.5,
    "subtracted_from_number": lambda x: 1 - x,
    "offset": lambda x: x + OFFSET,
    "negated": lambda x: -x,
    "cast": lambda x: x.to(torch.float64).contiguous(),
}


@pytest.mark.parametrize(
    "name",
    UNCHANGED,
)
def test_passes_unchanged(random: Random, name: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    close(send_back(UNCHANGED[name], (x,), relevance).relevance[0], relevance)


def test_position_embeddings_are_an_addend(random: Random) -> None:
    """Unlike a bias they differ between tokens, so they take a share, as in the authors' code."""
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    (positions,) = weights(random, (1, 3, 4))
    found = send_back(lambda x: x + positions, (x,), relevance).relevance[0]
    close(found, add(x, positions.detach().expand_as(x), relevance)[0])


# -- two in --------------------------------------------------------------------------------------

ADD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "operator": lambda x, y: x + y,
    "function": torch.add,
    "method": lambda x, y: x.add(y),
    "keyword": lambda x, y: torch.add(x, other=y),
}


def in_place(x: Tensor, y: Tensor) -> Tensor:
    x += y
    return x


ADD["in_place"] = in_place
ADD["in_place_method"] = lambda x, y: x.add_(y)


@pytest.mark.parametrize("rules", ["ours", "orig"])
@pytest.mark.parametrize("spelling", ADD)
def test_skip_connection(random: Random, spelling: str, rules: str) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    sent = send_back(ADD[spelling], (x, y), relevance, rules)
    for found, expected in zip(sent.relevance, add(x, y, relevance, rules), strict=True):
        close(found, expected)


def test_skip_connection_of_tokens_before_samples(random: Random) -> None:
    """(tokens, batch, hidden): sums are still per sample."""
    x, y, relevance = random(3, 2, 4), random(3, 2, 4), random(3, 2, 4)
    sent = send_back(torch.add, (x, y), relevance, batch_first=False)
    turned = add(*(t.transpose(0, 1) for t in (x, y, relevance)))
    for found, expected in zip(sent.relevance, turned, strict=True):
        close(found.transpose(0, 1), expected)


def test_weighted_sum(random: Random) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    sent = send_back(lambda x, y: torch.add(x, y, alpha=-0.5), (x, y), relevance)
    for found, expected in zip(sent.relevance, add(x, -0.5 * y, relevance), strict=True):
        close(found, expected)


@pytest.mark.parametrize("rules", ["ours", "orig"])
@pytest.mark.parametrize("spelling", ["index_add_", "scatter_add_"])
def test_outputs_of_experts_are_added_up_in_place(
    random: Random, spelling: str, rules: str
) -> None:
    """Two experts write into three tokens; both have written into the last one."""

    def add_into(total: Tensor, tokens: list[int], rows: Tensor) -> None:
        index = torch.tensor(tokens)
        if spelling == "index_add_":
            total.index_add_(0, index, rows)
        else:
            total.scatter_add_(0, index[:, None].expand_as(rows), rows)

    def mix(x: Tensor, y: Tensor) -> Tensor:
        total = torch.zeros_like(x[0, :1]).repeat(3, 1)
        add_into(total, [0, 2], x[0])
        add_into(total, [2, 1], y[0])
        return total[None]

    x, y, relevance = random(1, 2, 4), random(1, 2, 4), random(1, 3, 4)
    found = send_back(mix, (x, y), relevance, rules).relevance
    ratio = relevance[0, 2] / (x[0, 1] + y[0, 0])
    expected_x = torch.stack([relevance[0, 0], x[0, 1] * ratio])[None]
    expected_y = torch.stack([y[0, 0] * ratio, relevance[0, 1]])[None]
    torch.testing.assert_close(found[0], expected_x, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found[1], expected_y, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rules", ["ours", "orig"])
def test_subtraction(random: Random, rules: str) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    for subtract in (lambda x, y: x - y, torch.sub, lambda x, y: x.sub(y)):
        sent = send_back(subtract, (x, y), relevance, rules)
        for found, expected in zip(sent.relevance, add(x, -y, relevance, rules), strict=True):
            close(found, expected)


def test_gated_product(random: Random) -> None:
    """silu(x) * y gives half to each side; sigmoid(x) * y gives nothing to the gate."""
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    for gate in (F.silu, F.gelu, lambda x: x):
        sent = send_back(lambda x, y, gate=gate: gate(x) * y, (x, y), relevance)
        close(sent.relevance[0], relevance / 2)
        close(sent.relevance[1], relevance / 2)
    for gated in (lambda x, y: torch.sigmoid(x) * y, lambda x, y: y * x.tanh()):
        sent = send_back(gated, (x, y), relevance)
        assert (sent.relevance[0] == 0).all()
        close(sent.relevance[1], relevance)


def test_division_by_an_activation(random: Random) -> None:
    """The numerator gets all relevance."""
    x, y, relevance = random(2, 3, 4), random(2, 3, 1), random(2, 3, 4)
    sent = send_back(lambda x, y: x / y, (x, y), relevance)
    close(sent.relevance[0], relevance)
    assert (sent.relevance[1] == 0).all()


def test_a_number_over_an_activation_is_a_scale(random: Random) -> None:
    """1 / x, as a norm multiplies by it, takes no relevance."""
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    for over in (lambda x: 1 / x, lambda x: 2.0 / (x.abs() + 1), lambda x: x.reciprocal()):
        assert (send_back(over, (x,), relevance).relevance[0] == 0).all()
