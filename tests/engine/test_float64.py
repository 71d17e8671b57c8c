"""Models in float64 that make float32 tensors on the way."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.engine.test_hidden_operations import Block, Net, explain


class Accumulates(Block):
    """Adds up in float32, whatever its precision is, as some experts do."""

    def forward(self, x: Tensor) -> Tensor:
        rows = super().forward(x).flatten(0, 1)
        total = torch.zeros_like(rows, dtype=torch.float32)
        total.index_add_(0, torch.arange(len(rows)), rows.float())
        return total.to(x.dtype).view_as(x)


class Samples(Block):
    """Reads at places that come from integers, in float32."""

    def forward(self, x: Tensor) -> Tensor:
        x = super().forward(x)
        places = torch.arange(x.shape[1]).to(torch.float32) / (x.shape[1] - 1) * 2 - 1
        grid = torch.stack([torch.zeros_like(places), places], -1).expand(len(x), 1, -1, -1)
        table = x.transpose(1, 2).unsqueeze(-1).to(torch.float32)
        found = F.grid_sample(table, grid, align_corners=True)
        return found[:, :, 0].transpose(1, 2).to(x.dtype)


class Multiplies(Block):
    """Multiplies by a matrix that comes from integers, in float32."""

    def forward(self, x: Tensor) -> Tensor:
        mix = torch.eye(x.shape[1], dtype=torch.long).float()
        return (mix @ super().forward(x).float()).to(x.dtype)


class Reduces(Block):
    """Reduces integers in float32 by arguments with names, as TAPAS does with positions."""

    def forward(self, x: Tensor) -> Tensor:
        places, total = torch.arange(x.shape[1]), torch.zeros(1, dtype=torch.float)
        first = total.scatter_reduce(
            dim=0, index=0 * places, src=places.float(), reduce="amin", include_self=False
        )
        return super().forward(x) + first.to(x.dtype)


@pytest.mark.parametrize("method", ["libragrad", "gradient_x_input", "gae"])
@pytest.mark.parametrize("kind", [Accumulates, Samples, Multiplies, Reduces])
def test_they_are_explained_in_float64(kind: type[Block], method: str) -> None:
    plain, model = Net(), Net()
    model.blocks = nn.ModuleList([kind(F.silu) for _ in range(3)])
    model.double().load_state_dict(plain.state_dict())
    found, expected = explain(model.eval(), method), explain(plain, method)
    torch.testing.assert_close(found.scores, expected.scores, rtol=1e-12, atol=1e-12)


class WritesDefault(Block):
    """Writes float64 values into a tensor of the default precision, as FourierFT does."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.zeros(x.shape[1])
        weights[torch.arange(x.shape[1])] = torch.ones(x.shape[1], dtype=x.dtype).float()
        return super().forward(x) * weights[:, None]


def test_values_are_written_in_the_precision_of_the_target() -> None:
    plain, model = Net(), Net()
    model.blocks = nn.ModuleList([WritesDefault(F.silu) for _ in range(3)])
    model.double().load_state_dict(plain.state_dict())
    found, expected = explain(model.eval(), "libragrad"), explain(plain, "libragrad")
    torch.testing.assert_close(found.scores, expected.scores)
