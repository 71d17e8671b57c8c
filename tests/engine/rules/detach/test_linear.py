"""Linear layers against LRP-0, input by input: R_i = sum over j of x_i w_ji / z_j R_j."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach.tables import detach_table

Random = Callable[..., Tensor]
RULES = detach_table(attention="detach", norm="detach")


def slow_linear(x: Tensor, weight: Tensor, bias: Tensor, relevance: Tensor) -> tuple[Tensor, ...]:
    """(relevance of x, relevance of the bias per sample), one product at a time."""
    to_x, to_bias = torch.zeros_like(x), x.new_zeros(len(x))
    for sample in range(len(x)):
        for j in range(len(weight)):
            z = sum(x[sample, i] * weight[j, i] for i in range(x.shape[1])) + bias[j]
            for i in range(x.shape[1]):
                to_x[sample, i] += x[sample, i] * weight[j, i] / z * relevance[sample, j]
            to_bias[sample] += bias[j] / z * relevance[sample, j]
    return to_x, to_bias


SPELLINGS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear_keyword": lambda x, w, b: F.linear(x, w, bias=b),
    "addmm": lambda x, w, b: torch.addmm(b, x, w.T),
    "matmul_and_add": lambda x, w, b: x @ w.T + b,
    "added_in_place": lambda x, w, b: torch.matmul(x, w.T).add_(b),
    "bias_first": lambda x, w, b: b + torch.mm(x, w.T),
    "einsum": lambda x, w, b: torch.einsum("bi,ji->bj", x, w) + b,
    "einsum_of_a_list": lambda x, w, b: torch.einsum("bi,ji->bj", [x, w]) + b,
    "subtracted": lambda x, w, b: x @ w.T - (-b),
    "subtracted_from": lambda x, w, b: b - x @ (-w.T),
    "convolution": lambda x, w, b: F.conv1d(x.unsqueeze(2), w.unsqueeze(2), b).squeeze(2),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_equals_the_slow_twin(through: Any, random: Random, spelling: str) -> None:
    x, weight, bias, relevance = random(2, 4), random(3, 4), random(3), random(2, 3)
    passed = through(lambda x: SPELLINGS[spelling](x, weight, bias), (x,), RULES, relevance)
    to_x, to_bias = slow_linear(x, weight, bias, relevance)
    torch.testing.assert_close(passed.relevance[0], to_x)
    torch.testing.assert_close(sum(passed.sinks.values()), to_bias)


def test_a_residual_shares_by_value(through: Any, random: Random) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    passed = through(lambda x, y: x + y, (x, y), RULES, relevance)
    torch.testing.assert_close(passed.relevance[0], x / (x + y) * relevance)
    torch.testing.assert_close(passed.relevance[1], y / (x + y) * relevance)
    assert not passed.sinks


def test_a_joined_constant_is_a_sink(through: Any, random: Random) -> None:
    """The relevance of a class token before the patches is a sink."""
    patches, token, relevance = random(2, 3, 4), random(1, 1, 4), random(2, 4, 4)
    passed = through(
        lambda x: torch.cat((token.expand(2, -1, -1), x), dim=1), (patches,), RULES, relevance
    )
    torch.testing.assert_close(passed.relevance[0], relevance[:, 1:])
    torch.testing.assert_close(sum(passed.sinks.values()), relevance[:, 0].sum(dim=1))


def test_a_scalar_factor_passes_relevance_unchanged(through: Any, random: Random) -> None:
    x, relevance = random(2, 3), random(2, 3)
    for scale in (lambda x: x / 8, lambda x: 0.3 * x, lambda x: x.mul(7).div(2)):
        torch.testing.assert_close(through(scale, (x,), RULES, relevance).relevance[0], relevance)
