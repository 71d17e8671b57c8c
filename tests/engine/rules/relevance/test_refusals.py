"""Relevance through several layers, and operations that have no relevance rule."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.rules.relevance.twins import (
    Random,
    add,
    close,
    linear,
    send_back,
)
from whyformer.errors import ModelError

# -- layers put together -------------------------------------------------------------------------


def test_pooler(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 5)
    dense, head = nn.Linear(4, 4).double(), nn.Linear(4, 5).double()
    found = send_back(lambda x: head(torch.tanh(dense(x[:, 0]))), (x,), relevance).relevance[0]
    pooled = torch.tanh(dense(x[:, 0])).detach()
    arriving = linear(pooled, head.weight.detach(), relevance)
    close(found[:, 0], linear(x[:, 0], dense.weight.detach(), arriving))
    assert (found[:, 1:] == 0).all()


@pytest.mark.parametrize("rules", ["ours", "orig"])
def test_feed_forward_with_its_skip_connection(random: Random, rules: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    up, down, norm = nn.Linear(4, 6).double(), nn.Linear(6, 4).double(), nn.LayerNorm(4).double()
    found = send_back(lambda x: x + down(F.gelu(up(norm(x)))), (x,), relevance, rules).relevance[0]
    normed = norm(x).detach()
    hidden = F.gelu(up(normed)).detach()
    kept, branch = add(x, down(hidden).detach(), relevance, rules)
    arriving = linear(hidden, down.weight.detach(), branch, rules)
    close(found, kept + linear(normed, up.weight.detach(), arriving, rules))


# -- refusals ------------------------------------------------------------------------------------


def test_an_operation_without_a_rule_is_named(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    with pytest.raises(ModelError, match=r"'cumprod'.*no relevance rule"):
        send_back(lambda x: torch.cumprod(x, 1), (x,), relevance)


def test_an_operation_without_a_rule_may_return_several_tensors(random: Random) -> None:
    x, lstm = random(2, 3, 4), nn.LSTM(4, 4, batch_first=True).double()
    with pytest.raises(ModelError, match=r"'lstm'.*no relevance rule"):
        send_back(lambda x: lstm(x)[0], (x,), random(2, 3, 4))


def test_running_sums_share_by_contribution(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    found = send_back(lambda x: x.cumsum(1), (x,), relevance).relevance[0]
    before = torch.ones(3, 3, dtype=torch.float64).tril()
    contributions = before.unsqueeze(-1) * x.unsqueeze(1)  # (batch, output, input, hidden)
    share = relevance / contributions.sum(2)
    close(found, (contributions * share.unsqueeze(2)).sum(1))


def written_in_place(x: Tensor) -> Tensor:
    y = x * 2
    y.add_(x)
    return y * 3


def a_view_written_in_place(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0].add_(1.0)
    return y * 3


def seen_through_a_view(x: Tensor) -> Tensor:
    y = x * 2
    z = y.view(2, 12)
    y += x
    return z * 3


def an_entry_set(x: Tensor) -> Tensor:
    y = x * 2
    y[:, 0] = 0
    return y * 3


WRITING = {
    f.__name__: f
    for f in (
        written_in_place,
        a_view_written_in_place,
        seen_through_a_view,
        an_entry_set,
    )
}


@pytest.mark.parametrize(
    "name",
    WRITING,
)
def test_what_is_written_in_place_is_followed_or_refused(random: Random, name: str) -> None:
    x = random(2, 3, 4)
    relevance = random(*WRITING[name](x).shape)
    with pytest.raises(ModelError, match=r"in.place"):
        send_back(WRITING[name], (x,), relevance)


def test_an_operation_without_a_rule_is_no_error_where_no_relevance_arrives(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)

    def aside(x: Tensor) -> Tensor:
        return torch.stack((x, torch.cumprod(x, 1)))[0, :, 0]

    relevance_at = send_back(lambda x: aside(x), (x,), relevance).relevance[0]
    close(relevance_at[:, 0], relevance)
