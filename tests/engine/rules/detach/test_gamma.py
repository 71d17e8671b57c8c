"""Linear layers by LRP-gamma against loops over single contributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.rules.detach.tables import detach_table

Random = Callable[..., Tensor]
GAMMA = 0.3
RULES = detach_table(attention="uniform", norm="detach", linear="gamma", gamma=GAMMA)


def slow_gamma(x: Tensor, weight: Tensor, bias: Tensor, relevance: Tensor) -> tuple[Tensor, ...]:
    """(relevance of x, relevance of the bias per sample), one contribution at a time."""
    to_x, to_bias = torch.zeros_like(x), x.new_zeros(len(x))
    for sample in range(len(x)):
        for k in range(len(weight)):
            parts = [float(x[sample, i] * weight[k, i]) for i in range(x.shape[1])]
            parts.append(float(bias[k]))
            sign = 1 if sum(parts) > 0 else -1
            parts = [part * (1 + GAMMA) if part * sign > 0 else part for part in parts]
            for i in range(x.shape[1]):
                to_x[sample, i] += parts[i] / sum(parts) * relevance[sample, k]
            to_bias[sample] += parts[-1] / sum(parts) * relevance[sample, k]
    return to_x, to_bias


SPELLINGS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "linear_keyword": lambda x, w, b: F.linear(x, weight=w, bias=b),
    "addmm": lambda x, w, b: torch.addmm(b, x, w.T),
    "addmm_scaled": lambda x, w, b: torch.addmm(b / 2, x, w.T / 3, beta=2, alpha=3),
    "convolution": lambda x, w, b: F.conv1d(x.unsqueeze(2), w.unsqueeze(2), b).squeeze(2),
    "patches": lambda x, w, b: F.conv2d(
        x.unflatten(1, (1, 2, 2)), w.unflatten(1, (1, 2, 2)), b, 2
    ).flatten(1),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_equals_the_slow_twin(through: Any, random: Random, spelling: str) -> None:
    x, weight, bias, relevance = random(2, 4), random(3, 4), random(3), random(2, 3)
    passed = through(lambda x: SPELLINGS[spelling](x, weight, bias), (x,), RULES, relevance)
    to_x, to_bias = slow_gamma(x, weight, bias, relevance)
    torch.testing.assert_close(passed.relevance[0], to_x)
    torch.testing.assert_close(passed.sinks["bias"], to_bias)


def test_without_bias_everything_reaches_the_inputs(through: Any, random: Random) -> None:
    x, weight, relevance = random(2, 5, 4), random(3, 4), random(2, 5, 3)
    passed = through(lambda x: F.linear(x, weight), (x,), RULES, relevance)
    torch.testing.assert_close(passed.relevance[0].sum((1, 2)), relevance.sum((1, 2)))
    assert not passed.sinks


def test_overlapping_windows_conserve(through: Any, random: Random) -> None:
    x, weight, bias = random(2, 2, 5, 5), random(4, 1, 3, 3), random(4)
    relevance = random(2, 4, 5, 5)
    passed = through(
        lambda x: F.conv2d(x, weight, bias, padding=1, groups=2), (x,), RULES, relevance
    )
    total = passed.relevance[0].sum((1, 2, 3)) + passed.sinks["bias"]
    torch.testing.assert_close(total, relevance.sum((1, 2, 3)))


def test_by_hand(through: Any) -> None:
    """3 - 1 = 2 with gamma 1 shares as 6 to -1; -3 + 1 = -2 as -6 to 1."""
    x = torch.tensor([[3.0, 1.0]], dtype=torch.float64)
    weight = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    rules = detach_table(linear="gamma", gamma=1.0)
    for row in range(2):
        passed = through(
            lambda x, row=row: F.linear(x, weight[row : row + 1]), (x,), rules, torch.ones(1, 1)
        )
        torch.testing.assert_close(passed.relevance[0], x.new_tensor([[6 / 5, -1 / 5]]))
