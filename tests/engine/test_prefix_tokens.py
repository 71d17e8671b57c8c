"""Class and register tokens of image models that no family declares: by the model's own count."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import whyformer as wf
from tests.undeclared import WIDTH, Attention, Block

PIXELS = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0)).double()


class Registers(nn.Module):
    """A vision transformer as timm writes it: it counts its class and register tokens."""

    def __init__(self, prefix: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.num_prefix_tokens = prefix
        self.prefix = nn.Parameter(torch.randn(1, prefix, WIDTH))
        self.patches = nn.Conv2d(3, WIDTH, 4, 4)
        self.blocks = nn.Sequential(Block(Attention()), Block(Attention()))
        self.head = nn.Linear(WIDTH, 3)
        self.double().eval()

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = self.blocks(torch.cat([self.prefix.expand(len(x), -1, -1), x], 1))
        return self.head(x.mean(1))


@pytest.mark.parametrize("prefix", [0, 1, 5])
def test_patches_follow_the_prefix_that_the_model_counts(prefix: int) -> None:
    model = Registers(prefix)
    for method in ("libragrad", "gae"):
        a = wf.explain(PIXELS, model, method=method, target=1)
        assert a.streams[a.main].grid == (4, 4)
        assert a.scores.shape == (2, 16)
        if a.conservation is not None:
            ones = torch.ones(2, dtype=torch.float64)
            torch.testing.assert_close(a.conservation, ones, rtol=0, atol=1e-8)


def test_a_wrong_count_does_not_matter_where_patches_are_seen() -> None:
    right, wrong = Registers(5), Registers(5)
    wrong.num_prefix_tokens = 3
    ours, theirs = (wf.explain(PIXELS, m, method="libragrad", target=1) for m in (wrong, right))
    torch.testing.assert_close(ours.scores, theirs.scores)


def test_a_wrong_count_is_refused_where_they_are_not() -> None:
    class Mixed(Registers):
        def forward(self, x: Tensor) -> Tensor:
            x = self.patches(x).flatten(2).transpose(1, 2)
            x = x + x.mean(1, keepdim=True)  # every state comes from all patches
            return self.head(self.blocks(torch.cat([self.prefix.expand(2, -1, -1), x], 1)).mean(1))

    model = Mixed(5)
    model.num_prefix_tokens = 3
    with pytest.raises(wf.errors.ModelError, match="cannot tell which states are patches"):
        wf.explain(PIXELS, model, target=1)
