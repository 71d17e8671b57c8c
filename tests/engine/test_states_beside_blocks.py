"""Blocks whose states go around the attention: a part of a block is not taken for the block."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import whyformer as wf

WIDTH = 8


class Attention(nn.Module):
    """Attention alone: (batch, tokens, hidden) enter and leave."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, states: Tensor) -> Tensor:
        query, key, value = self.qkv(states).chunk(3, -1)
        return torch.softmax(query @ key.transpose(-2, -1), -1) @ value


class ManyStates(nn.Module):
    """Two states per token, as the hyper-connections of DeepSeek-V4 have."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = Attention()

    def forward(self, states: Tensor) -> Tensor:
        return states + self.attention(states.mean(2)).unsqueeze(2)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([ManyStates(), ManyStates()])

    def forward(self, x: Tensor) -> Tensor:
        states = x.unsqueeze(2).expand(-1, -1, 2, -1)
        for layer in self.layers:
            states = layer(states)
        return states.mean((1, 2))


def test_the_blocks_and_not_the_attention_inside_are_read() -> None:
    torch.manual_seed(0)
    model, x = Model().double(), torch.rand(2, 5, WIDTH, dtype=torch.float64)
    found = wf.explain(x, model, method="gradient_x_input", target=0)
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(model(x)[:, 0].sum(), x)
    torch.testing.assert_close(found.scores, (x * gradient).sum(-1).detach())
