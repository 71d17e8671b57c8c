"""The same block in other spellings: every method gives the same scores."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import whyformer as wf

IDS = torch.tensor([[1, 2, 3, 4, 5], [6, 7, 8, 9, 3]])
METHODS: list[tuple[str, dict[str, Any]]] = [
    ("libragrad", {}),
    ("attn_lrp", {}),
    ("lrp_ah_ln", {"activations": "identity"}),
    ("gae", {}),
    ("transformer_attribution", {}),
]


def usual_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.softmax(q @ k.transpose(-1, -2) / 2, dim=-1) @ v


def exponentials(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = (q @ k.transpose(-1, -2) / 2).exp()
    return (weights / weights.sum(-1, keepdim=True)) @ v


def shifted(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / 2
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    return torch.div(weights, weights.sum(dim=-1).unsqueeze(-1)) @ v


def values_first(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    attention = torch.softmax(q @ k.transpose(-1, -2) / 2, dim=-1)
    return (v.transpose(-1, -2) @ attention.transpose(-1, -2)).transpose(-1, -2)


def values_first_by_column(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    attention = torch.softmax(q @ k.transpose(-1, -2) / 2, dim=-1).mT
    return torch.matmul(input=v.mT, other=attention).mT


def by_name(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = torch.div(input=torch.matmul(input=q, other=k.transpose(-1, -2)), other=2)
    return torch.matmul(input=torch.softmax(input=scores, dim=-1), other=v)


def added_product(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))
    empty = torch.zeros(len(q), q.shape[1], k.shape[1], dtype=q.dtype)
    keys = k.transpose(1, 2)
    scores = torch.baddbmm(input=empty, batch1=q, batch2=keys, beta=0.0, alpha=0.5)
    return (scores.unflatten(0, (-1, 4)).softmax(-1)) @ v.unflatten(0, (-1, 4))


def chosen_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.transpose(-1, -2) / 2
    scores = scores.where(torch.ones(5, 5, dtype=torch.bool), torch.tensor(-9.0).double())
    return scores.softmax(-1) @ v


ATTENTIONS = {
    "exponentials": exponentials,
    "values_first": values_first,
    "values_first_by_column": values_first_by_column,
    "by_name": by_name,
    "added_product": added_product,
    "chosen_scores": chosen_scores,
}


def usual_norm(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) * torch.rsqrt(
        x.var(-1, correction=0, keepdim=True) + 1e-5
    )


def variance_and_mean(x: Tensor) -> Tensor:
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * torch.rsqrt(variance + 1e-5)


def power(x: Tensor) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    return centred * (centred.pow(2).mean(-1, keepdim=True) + 1e-5) ** -0.5


def deviation_and_mean(x: Tensor) -> Tensor:
    deviation, mean = torch.std_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) / (deviation.pow(2) + 1e-5).pow(0.5)


NORMS = {
    "variance_and_mean": variance_and_mean,
    "power": power,
    "deviation_and_mean": deviation_and_mean,
}


class Block(nn.Module):
    def __init__(self, attend: Any, norm: Any) -> None:
        super().__init__()
        self.inputs = nn.ModuleList([nn.Linear(16, 16) for _ in range(3)])
        self.output, self.attend, self.norm = nn.Linear(16, 16), attend, norm
        self.mlp = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        q, k, v = (part(h).unflatten(-1, (4, 4)).transpose(1, 2) for part in self.inputs)
        x = x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm(x))


class Net(nn.Module):
    def __init__(self, attend: Any = usual_attention, norm: Any = usual_norm) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(10, 16)
        self.blocks = nn.ModuleList([Block(attend, norm) for _ in range(3)])
        self.head = nn.Linear(16, 3)
        self.double().eval()

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.embedding(input_ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])


def explain(net: nn.Module, method: str, options: dict[str, Any]) -> wf.Attribution:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return wf.explain({"input_ids": IDS}, net, method=method, target=1, **options)


def assert_alike(found: wf.Attribution, expected: wf.Attribution) -> None:
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-7, atol=1e-9)
    if found.conservation is not None:
        ones = torch.ones(2, dtype=torch.float64)
        torch.testing.assert_close(found.conservation, ones, rtol=0, atol=1e-8)


@pytest.mark.parametrize(("method", "options"), METHODS)
@pytest.mark.parametrize("name", ATTENTIONS)
def test_attention(name: str, method: str, options: dict[str, Any]) -> None:
    attend: Callable[..., Tensor] = ATTENTIONS[name]
    assert_alike(explain(Net(attend), method, options), explain(Net(), method, options))


@pytest.mark.parametrize(("method", "options"), METHODS[:4])
def test_shifted_scores(method: str, options: dict[str, Any]) -> None:
    """Relevance rules share the difference of scores and maximum, so they are not among these."""
    assert_alike(explain(Net(shifted), method, options), explain(Net(), method, options))


@pytest.mark.parametrize(("method", "options"), METHODS)
@pytest.mark.parametrize("name", NORMS)
def test_norms(name: str, method: str, options: dict[str, Any]) -> None:
    found = explain(Net(norm=NORMS[name]), method, options)
    assert_alike(found, explain(Net(), method, options))


@pytest.mark.parametrize(
    "normalise", [F.normalize, lambda x: x / torch.linalg.norm(x, dim=-1, keepdim=True)]
)
@pytest.mark.parametrize(("method", "options"), METHODS[:3])
def test_unit_length_conserves(normalise: Any, method: str, options: dict[str, Any]) -> None:
    def norm(x: Tensor) -> Tensor:
        return normalise(x, dim=-1) if normalise is F.normalize else normalise(x)

    found = explain(Net(norm=norm), method, options)
    assert_alike(found, found)
