"""Relevance through views, concatenation, pooling and averages, against slow twins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.rules.relevance.twins import (
    SCALE,
    Random,
    attention,
    close,
    linear,
    send_back,
    weights,
)

# -- moving things about -------------------------------------------------------------------------

QKV: dict[str, Callable[[Tensor], Any]] = {
    "split": lambda y: y.split(4, dim=-1),
    "split_function": lambda y: torch.split(y, [4, 4, 4], -1),
    "chunk": lambda y: y.chunk(3, dim=-1),
    "reshape_and_unbind": lambda y: y.reshape(2, 3, 3, 4).unbind(2),
    "permute_and_index": lambda y: tuple(
        y.reshape(2, 3, 3, 4).permute(2, 0, 1, 3)[i] for i in range(3)
    ),
    "slices": lambda y: (y[..., :4], y[..., 4:8], y[..., 8:]),
}


@pytest.mark.parametrize("cut", QKV)
def test_fused_qkv(random: Random, cut: str) -> None:
    """One layer computes queries, keys and values, and gets the relevance of all three."""
    x, relevance = random(2, 3, 4), random(2, 3, 4)
    w, b = weights(random, (12, 4), (12,))

    def attend(x: Tensor) -> Tensor:
        q, k, v = QKV[cut](F.linear(x, w, b))
        return torch.softmax(q @ k.transpose(-2, -1) * SCALE, -1) @ v

    q, k, v = F.linear(x, w, b).detach().split(4, -1)
    parts = attention(q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), relevance.unsqueeze(1))
    expected = linear(x, w.detach(), torch.cat([part.squeeze(1) for part in parts], -1))
    sent = send_back(attend, (x,), relevance)
    close(sent.relevance[0], expected)
    assert len(sent.maps) == 1


@pytest.mark.parametrize("join", [torch.cat, torch.concat, torch.concatenate])
def test_concatenation(random: Random, join: Callable[..., Tensor]) -> None:
    """Each part gets its own relevance; so does a class token that is a parameter."""
    x, y, relevance = random(2, 3, 4), random(2, 2, 4), random(2, 6, 4)
    (token,) = weights(random, (1, 1, 4))
    sent = send_back(lambda x, y: join((token.expand(2, -1, -1), x, y), dim=1), (x, y), relevance)
    close(sent.relevance[0], relevance[:, 1:4])
    close(sent.relevance[1], relevance[:, 4:])


def test_stack(random: Random) -> None:
    x, y, relevance = random(2, 4), random(2, 4), random(2, 2, 4)
    sent = send_back(lambda x, y: torch.stack([x, y], 1), (x, y), relevance)
    close(torch.stack(sent.relevance, 1), relevance)


SELECT: dict[str, Callable[[Tensor], Tensor]] = {
    "index": lambda x: x[:, 0],
    "select": lambda x: x.select(1, 0),
    "narrow": lambda x: x.narrow(1, 0, 1).squeeze(1),
    "index_select": lambda x: x.index_select(1, torch.tensor([0])).squeeze(1),
    "gather": lambda x: x.gather(1, torch.zeros(2, 1, 4, dtype=torch.long)).squeeze(1),
    "positions": lambda x: x[torch.arange(2), torch.tensor([0, 0])],
    "unbind": lambda x: x.unbind(1)[0],
}


@pytest.mark.parametrize("how", SELECT)
def test_class_token(random: Random, how: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)
    found = send_back(SELECT[how], (x,), relevance).relevance[0]
    close(found[:, 0], relevance)
    assert (found[:, 1:] == 0).all()


def test_fan_out_adds_up(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 6, 4)
    found = send_back(lambda x: torch.cat((x, x), 1), (x,), relevance).relevance[0]
    close(found, relevance[:, :3] + relevance[:, 3:])


def test_repeated_key_value_heads(random: Random) -> None:
    x, relevance = random(2, 1, 3, 4), random(2, 2, 3, 4)
    for repeat in (
        lambda x: x.repeat_interleave(2, dim=1),
        lambda x: x.expand(-1, 2, -1, -1),
        lambda x: x[:, :, None].expand(2, 1, 2, 3, 4).reshape(2, 2, 3, 4),
    ):
        close(send_back(repeat, (x,), relevance).relevance[0], relevance.sum(1, keepdim=True))


# -- averages ------------------------------------------------------------------------------------

MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])
MEAN: dict[str, Callable[[Tensor], Tensor]] = {
    "method": lambda x: x.mean(1),
    "function": lambda x: torch.mean(x, dim=1),
    "negative_axis": lambda x: x.mean(-2),
    "kept_axis": lambda x: x.mean(dim=1, keepdim=True).squeeze(1),
    "sum_over_count": lambda x: x.sum(1) / 3,
    "list_of_axes": lambda x: x.mean([1]),
    "pooling_module": lambda x: nn.AdaptiveAvgPool1d(1)(x.transpose(1, 2)).squeeze(-1),
    "pooling": lambda x: F.avg_pool1d(x.transpose(1, 2), 3).squeeze(-1),
}


@pytest.mark.parametrize(
    "spelling",
    MEAN,
)
def test_mean_pooling(random: Random, spelling: str) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)
    expected = x / x.sum(1, keepdim=True) * relevance.unsqueeze(1)
    close(send_back(MEAN[spelling], (x,), relevance).relevance[0], expected)


def test_mean_over_two_axes(random: Random) -> None:
    x, relevance = random(2, 3, 4, 5), random(2, 3)
    expected = x / x.sum((2, 3), keepdim=True) * relevance[..., None, None]
    for pool in (
        lambda x: x.mean((2, 3)),
        lambda x: x.mean([-1, -2]),
        lambda x: x.flatten(2).mean(2),
    ):
        close(send_back(pool, (x,), relevance).relevance[0], expected)


def test_mean_pooling_of_real_tokens(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)

    def pool(x: Tensor) -> Tensor:
        mask = MASK.unsqueeze(-1).to(x.dtype)
        return (x * mask).sum(1) / mask.sum(1).clamp(min=1e-9)

    real = x * MASK.unsqueeze(-1)
    found = send_back(pool, (x,), relevance).relevance[0]
    close(found, real / real.sum(1, keepdim=True) * relevance.unsqueeze(1))
    assert (found[1, 2] == 0).all()


def test_the_larger_of_two_takes_all(random: Random) -> None:
    x, y, relevance = random(2, 3, 4), random(2, 3, 4), random(2, 3, 4)
    for larger in (torch.maximum, torch.max):
        sent = send_back(larger, (x, y), relevance)
        close(sent.relevance[0], relevance * (x > y))
        close(sent.relevance[1], relevance * (x < y))


def test_maximum_pooling_goes_to_the_largest(random: Random) -> None:
    x, relevance = random(2, 3, 4), random(2, 4)
    expected = F.one_hot(x.argmax(1), 3).transpose(1, 2) * relevance.unsqueeze(1)
    for pool in (lambda x: x.amax(1), lambda x: x.max(1).values, lambda x: torch.max(x, dim=1)[0]):
        close(send_back(pool, (x,), relevance).relevance[0], expected)
