"""Arguments by position and by name: the same output, relevance, sinks and leaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.engine.rules.relevance.twins import send_back
from whyformer.engine.rules.rule_sets import attn_lrp_rules, balanced_rules

Random = Callable[..., Tensor]
TABLES = {"attn_lrp": attn_lrp_rules().table, "libragrad": balanced_rules().table}
W = torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4)
B = torch.linspace(0.2, 1, 4, dtype=torch.float64)
MASK = torch.tensor([True, False, True, True])
INDEX = torch.tensor([2, 0, 1])

Call = Callable[[Tensor, Tensor], Tensor]
CALLS: dict[str, tuple[Call, Call]] = {
    "add": (lambda x, y: torch.add(x, y), lambda x, y: torch.add(input=x, other=y)),
    "add_method": (lambda x, y: x.add(y), lambda x, y: x.add(other=y)),
    "sub": (lambda x, y: torch.sub(x, y), lambda x, y: torch.sub(input=x, other=y)),
    "mul": (lambda x, y: torch.mul(x, y), lambda x, y: torch.mul(input=x, other=y)),
    "div": (lambda x, y: torch.div(x, B), lambda x, y: torch.div(input=x, other=B)),
    "matmul": (lambda x, y: x @ y.mT, lambda x, y: torch.matmul(input=x, other=y.mT)),
    "bmm": (lambda x, y: torch.bmm(x, y.mT), lambda x, y: torch.bmm(input=x, mat2=y.mT)),
    "cat": (lambda x, y: torch.cat((x, y), 1), lambda x, y: torch.cat(tensors=(x, y), dim=1)),
    "stack": (lambda x, y: torch.stack([x, y], 1), lambda x, y: torch.stack(tensors=[x, y], dim=1)),
    "linear": (
        lambda x, y: F.linear(x, W, B) + y,
        lambda x, y: F.linear(input=x, weight=W, bias=B) + y,
    ),
    "conv1d": (
        lambda x, y: F.conv1d(x.mT, W[:, :, None], B).mT + y,
        lambda x, y: F.conv1d(input=x.mT, weight=W[:, :, None], bias=B).mT + y,
    ),
    "gelu": (lambda x, y: F.gelu(x) + y, lambda x, y: F.gelu(input=x) + y),
    "softmax": (
        lambda x, y: torch.softmax(x @ x.mT, -1) @ y,
        lambda x, y: torch.matmul(
            input=torch.softmax(input=torch.matmul(input=x, other=x.mT), dim=-1), other=y
        ),
    ),
    "layer_norm": (
        lambda x, y: F.layer_norm(x, (4,), B, B) + y,
        lambda x, y: F.layer_norm(input=x, normalized_shape=(4,), weight=B, bias=B) + y,
    ),
    "where": (
        lambda x, y: torch.where(MASK, x, y),
        lambda x, y: torch.where(condition=MASK, input=x, other=y),
    ),
    "where_method": (lambda x, y: torch.where(MASK, x, y), lambda x, y: x.where(MASK, y)),
    "where_constant": (
        lambda x, y: torch.where(MASK, x, 2.0) + y,
        lambda x, y: x.where(MASK, torch.tensor(2.0).double()) + y,
    ),
    "sum": (
        lambda x, y: torch.sum(x, -1, True) + y,
        lambda x, y: torch.sum(input=x, dim=-1, keepdim=True) + y,
    ),
    "transpose": (
        lambda x, y: torch.transpose(x, 1, 2).mT + y,
        lambda x, y: torch.transpose(input=x, dim0=1, dim1=2).mT + y,
    ),
    "masked_fill": (
        lambda x, y: x.masked_fill(MASK, 0.0) + y,
        lambda x, y: torch.masked_fill(input=x, mask=MASK, value=0.0) + y,
    ),
}
# The relevance rules refuse these.
DETACH_ONLY: dict[str, tuple[Call, Call]] = {
    "baddbmm": (
        lambda x, y: x @ y.mT * 0.5 + torch.ones(3, 3).double(),
        lambda x, y: torch.baddbmm(
            input=torch.ones(2, 3, 3).double(), batch1=x, batch2=y.mT, alpha=0.5
        ),
    ),
    "index_add": (
        lambda x, y: torch.index_add(x, 1, INDEX, y),
        lambda x, y: torch.index_add(input=x, dim=1, index=INDEX, source=y),
    ),
    "two_tracked_weights": (
        lambda x, y: x[0] @ y[0].mT,
        lambda x, y: F.linear(input=x[0], weight=y[0]),
    ),
}


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("name", [*CALLS, *DETACH_ONLY])
def test_under_detach_rules(through: Any, random: Random, name: str, table: str) -> None:
    by_position, by_name = {**CALLS, **DETACH_ONLY}[name]
    x, y = random(2, 3, 4), random(2, 3, 4)
    if name == "two_tracked_weights":
        x, y = x[:1], y[:1]
    relevance = random(*by_position(x, y).shape)
    first, second = (
        through(call, (x, y), TABLES[table], relevance) for call in (by_position, by_name)
    )
    torch.testing.assert_close(first.output, second.output)
    torch.testing.assert_close(first.relevance, second.relevance)
    assert first.sinks.keys() == second.sinks.keys()
    for account, sink in first.sinks.items():
        torch.testing.assert_close(second.sinks[account], sink)
    # Products of two tracked tensors that are no attention share, and everything is booked.
    parts = [r.sum() for r in second.relevance]
    parts += [amount.sum() for amount in (*second.sinks.values(), *second.leaks.values())]
    torch.testing.assert_close(sum(parts, torch.zeros(()).double()), relevance.sum())


@pytest.mark.parametrize("name", CALLS)
def test_under_relevance_rules(random: Random, name: str) -> None:
    by_position, by_name = CALLS[name]
    x, y = random(2, 3, 4), random(2, 3, 4)
    relevance = random(*by_position(x, y).shape).abs()
    first, second = (send_back(call, (x, y), relevance) for call in (by_position, by_name))
    torch.testing.assert_close(first.relevance, second.relevance)
