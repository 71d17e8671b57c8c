"""Relevance rules of linear layers and convolutions, in every spelling, against slow twins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.rules.relevance.twins import (
    Random,
    among,
    close,
    hold_nothing,
    linear,
    linear_map,
    matmul,
    send_back,
    weights,
)
from whyformer.engine.interception import Interception
from whyformer.engine.rules.ledger import Ledger
from whyformer.engine.rules.operations import tensor_tags as tags
from whyformer.engine.rules.relevance.switch import Direction
from whyformer.engine.rules.relevance.table import relevance_table

# -- linear layers -------------------------------------------------------------------------------

LINEAR: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "keywords": lambda x, w, b: F.linear(input=x, weight=w, bias=b),
    "no_bias": lambda x, w, b: F.linear(x, w),
    "addmm": lambda x, w, b: torch.addmm(b, x.reshape(-1, 4), w.t()).reshape(2, 3, 5),
    "addmm_method": lambda x, w, b: b.addmm(x.reshape(-1, 4), w.t()).reshape(2, 3, 5),
    "transposed_property": lambda x, w, b: x @ w.T + b,
    "last_axes_transposed": lambda x, w, b: x @ w.mT + b,
    "matmul": lambda x, w, b: torch.matmul(x, w.transpose(0, 1)) + b,
    "mm": lambda x, w, b: (torch.mm(x.reshape(-1, 4), w.t()) + b).reshape(2, 3, 5),
    "bias_first": lambda x, w, b: b + x @ w.t(),
    "bias_in_place": lambda x, w, b: (x @ w.t()).add_(b),
    "bias_subtracted": lambda x, w, b: x @ w.t() - b,
    "data": lambda x, w, b: x @ w.data.t() + b,
    "derived": lambda x, w, b: x @ (w * 1.0).t() + b,
    "weight_first": lambda x, w, b: (w @ x.transpose(1, 2)).transpose(1, 2) + b,
    "einsum": lambda x, w, b: torch.einsum("bti,oi->bto", x, w) + b,
    "einsum_of_a_list": lambda x, w, b: torch.einsum("oi,bti->bto", [w, x]) + b,
    "pointwise_convolution": lambda x, w, b: F.conv1d(
        x.transpose(1, 2), w.unsqueeze(2), b
    ).transpose(1, 2),
}


@pytest.mark.parametrize("rules", ["ours", "orig"])
@pytest.mark.parametrize(
    "spelling",
    LINEAR,
)
def test_linear(random: Random, spelling: str, rules: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 5)
    w, b = weights(random, (5, 4), (5,))
    sent = send_back(lambda x: LINEAR[spelling](x, w, b), (x,), relevance, rules)
    close(sent.relevance[0], linear(x, w.detach(), relevance, rules))


def test_linear_module(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 5)
    layer = nn.Linear(4, 5).double()
    sent = send_back(layer, (x,), relevance)
    close(sent.relevance[0], linear(x, layer.weight.detach(), relevance))


def test_rows_without_relevance_pass_none(random: Random) -> None:
    """With a head on the class token, all other rows are skipped and get nothing."""
    x, relevance = random(2, 3, 4), random(2, 3, 5)
    relevance[:, 1:] = 0
    w, b = weights(random, (5, 4), (5,))
    found = send_back(lambda x: F.linear(x, w, b), (x,), relevance).relevance[0]
    assert (found[:, 1:] == 0).all()
    close(found, linear(x, w.detach(), relevance))


def test_linear_of_a_vector_per_sample(random: Random) -> None:
    x, relevance = random(2, 4), random(2, 5)
    (w,) = weights(random, (5, 4))
    close(
        send_back(lambda x: F.linear(x, w), (x,), relevance).relevance[0],
        linear(x, w.detach(), relevance),
    )


def test_a_weight_need_not_be_a_parameter(random: Random) -> None:
    """A buffer, or a frozen weight of another library."""
    x, w, relevance = random(2, 3, 4), random(4, 5), random(2, 3, 5)
    found = send_back(lambda x: x @ w, (x,), relevance).relevance[0]
    close(found, linear(x, w.t(), relevance))


def test_a_bias_is_a_bias_in_a_batch_of_one(random: Random) -> None:
    x, relevance = random(1, 4), random(1, 5)
    w, b = weights(random, (4, 5), (5,))
    close(
        send_back(lambda x: x @ w + b, (x,), relevance).relevance[0],
        linear(x, w.detach().t(), relevance),
    )


def test_a_weight_that_depends_on_the_tokens_is_a_factor(random: Random) -> None:
    """F.linear with a tracked weight (prototypes, similarity) is a product of two activations."""
    x, y, relevance = random(1, 3, 4), random(1, 5, 4), random(1, 3, 5)
    spelled = send_back(lambda x, y: F.linear(x, y[0]), (x, y), relevance)
    for found, expected in zip(spelled.relevance, matmul(x, y.mT, relevance), strict=True):
        close(found, expected if found is spelled.relevance[0] else expected.mT)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
def test_units_without_a_positive_contribution_pass_nothing_on(dtype: torch.dtype) -> None:
    """Few inputs are active, as after a ReLU, and some outputs have no positive contribution."""
    generator = torch.Generator().manual_seed(0)
    x = torch.zeros(8, 64, dtype=dtype)
    x[:, :2] = torch.rand(8, 2, generator=generator)
    w, b = (torch.randn(shape, generator=generator).to(dtype) for shape in ((64, 64), (64,)))
    relevance = torch.rand(8, 64, generator=generator).to(dtype)
    direction, leaf = Direction(), tags.add_tag(x.clone().requires_grad_(), tags.LEAF)
    table = relevance_table(direction, "ours", lambda a: a, hold_nothing)
    with Interception(table, Ledger(8, active=False)):
        output = F.linear(leaf, w, b)
    direction.relevance = True
    (found,) = torch.autograd.grad(output, leaf, relevance)
    expected = linear(x.double(), w.double(), relevance.double())
    torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "places",
    [{"stride": 2}, {"padding": 1}, {"dilation": 2}, {"groups": 2}],
    ids=["stride", "padding", "dilation", "groups"],
)
@pytest.mark.parametrize("rules", ["ours", "orig"])
def test_convolution_is_linear(random: Random, rules: str, places: dict[str, int]) -> None:
    x = random(2, 2, 4, 4)
    (w,) = weights(random, (4, 2 // places.get("groups", 1), 2, 2))
    (b,) = weights(random, (4,))
    relevance = random(*F.conv2d(x, w, b, **places).shape)
    found = send_back(lambda x: F.conv2d(x, w, b, **places), (x,), relevance, rules).relevance[0]
    for i in range(2):
        dense = linear_map(lambda x: F.conv2d(x.unsqueeze(0), w, **places), x[i]).detach()
        expected = linear(x[i].flatten(), dense, relevance[i].flatten(), rules)
        close(found[i].flatten(), expected)


def test_convolution_of_pixels(random: Random) -> None:
    """Pixels lie in a box from the image's minimum to its maximum."""
    x, relevance = random(2, 3, 4, 4), random(2, 5, 2, 2)
    w, b = weights(random, (5, 3, 2, 2), (5,))
    direction = Direction()
    leaf = tags.add_tag(x.clone().requires_grad_(), tags.PIXELS)
    table = relevance_table(direction, "orig", lambda a: a, hold_nothing)
    with Interception(table, Ledger(2, active=False), double=True):
        output = F.conv2d(leaf, w, b, stride=2)
    direction.relevance = True
    (found,) = torch.autograd.grad(output, leaf, relevance)
    for i in range(2):
        dense = linear_map(lambda x: F.conv2d(x.unsqueeze(0), w, stride=2), x[i]).detach()
        low, high = x[i].min(), x[i].max()
        contributions = (
            x[i].flatten() * dense - low * dense.clamp(min=0) - high * dense.clamp(max=0)
        )
        close(found[i].flatten(), among(contributions, relevance[i].flatten()))
