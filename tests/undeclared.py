"""Small models that no family declares, in which attention is arranged in many ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from whyformer.engine.result import MethodResult
from whyformer.pipeline import explain_batch

WIDTH, HEADS = 12, 3


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> list[MethodResult]:
    """What methods returned in this test, in order."""
    seen: list[MethodResult] = []
    assemble = explain_batch.__dict__["assemble"]

    def note(request: Any, loaded: Any, run: Any, result: MethodResult) -> Any:
        seen.append(result)
        return assemble(request, loaded, run, result)

    monkeypatch.setattr(explain_batch, "assemble", note)
    return seen


class Projections(nn.Module):
    """Queries, keys and values of every head, (batch, head, tokens, features)."""

    def __init__(self) -> None:
        super().__init__()
        self.all = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        split = self.all(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return tuple(split)


def attend(query: Tensor, key: Tensor, value: Tensor, maps: list[Tensor] | None = None) -> Tensor:
    """Attention; the map is appended to `maps`, with its gradient kept."""
    scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
    attention = scores.softmax(-1)
    if maps is not None:
        attention.retain_grad()
        maps.append(attention)
    return attention @ value


class Attention(nn.Module):
    """All heads at once."""

    def __init__(self) -> None:
        super().__init__()
        self.project = Projections()
        self.out = nn.Linear(WIDTH, WIDTH)
        self.maps: list[Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.mix(*self.project(x)).transpose(1, 2).flatten(2))

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attend(query, key, value, self.maps)


class HeadLoop(Attention):
    """One head after the other."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        parts = [attend(query[:, h], key[:, h], value[:, h]) for h in range(HEADS)]
        return torch.stack(parts, dim=1)


class SampleLoop(Attention):
    """One sample after the other."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return torch.stack([attend(*one) for one in zip(query, key, value, strict=True)])


class FusedSampleLoop(Attention):
    """One sample after the other, each with fused attention."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        fused = nn.functional.scaled_dot_product_attention
        rows = zip(query.split(1), key.split(1), value.split(1), strict=True)
        return torch.cat([fused(*one) for one in rows])


class FoldedHeads(Attention):
    """Samples and heads in one axis, samples first."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch = len(query)
        mixed = attend(query.flatten(0, 1), key.flatten(0, 1), value.flatten(0, 1))
        return mixed.unflatten(0, (batch, HEADS))


class HeadsFirst(Attention):
    """Heads and samples in one axis, heads first."""

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch = len(query)
        query, key, value = (x.transpose(0, 1).flatten(0, 1) for x in (query, key, value))
        return attend(query, key, value).unflatten(0, (HEADS, batch)).transpose(0, 1)


class Differential(nn.Module):
    """The difference of two attentions on the same states, as in DiffLlama."""

    def __init__(self, share: float = 0.4) -> None:
        super().__init__()
        self.first, self.second, self.share = Attention(), Attention(), share

    def forward(self, x: Tensor) -> Tensor:
        return self.first(x) - self.share * self.second(x)


class Sequence(nn.Module):
    """Two attentions, one after the other, in one block."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Attention(), Attention()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.first(x)
        return self.second(x)


class ShortConvolution(nn.Module):
    """A convolution over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(WIDTH, WIDTH, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return self.convolution(x.transpose(1, 2)).transpose(1, 2)


class Beside(nn.Module):
    """A convolution and an attention on the same states, as in Falcon-H1."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.convolution = Attention(), ShortConvolution()

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x) + self.convolution(x)


class TokenWise(nn.Module):
    """A layer that mixes no tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class Block(nn.Module):
    """A mixer and a feed-forward layer, each with a residual."""

    def __init__(self, mixer: nn.Module) -> None:
        super().__init__()
        self.mixer = mixer
        self.norms = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)])
        self.feed = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mixer(self.norms[0](x))
        return x + self.feed(self.norms[1](x))


class Classifier(nn.Module):
    """Embeddings, blocks, and a head on the first token."""

    def __init__(self, *mixers: Callable[[], nn.Module]) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(30, WIDTH)
        self.blocks = nn.ModuleList([Block(mixer()) for mixer in mixers])
        self.head = nn.Linear(WIDTH, 3)
        self.double().eval()

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x[:, 0])
