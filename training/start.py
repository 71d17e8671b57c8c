"""Weights to start from: a small model that sees patches learns shapes several times sooner.

Random weights leave it long on a plateau: patches are nearly all canvas, attention is nearly even,
and what belongs together is found late. Each function here sets some weights of an untrained
model; nothing of it is needed once the model is trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

SPREAD = 0.05  # standard deviation of all other weights


@torch.no_grad()
def whitened(features: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """A matrix (width, inputs) and a bias that make rows of features small, even and centred.

    The directions in which the features vary most, weakened by the square root of how much they
    do, and turned at random.
    """
    middle = features.mean(0)
    variances, directions = torch.linalg.eigh(torch.cov((features - middle).T))
    variances, directions = variances.flip(0)[:width], directions.flip(1)[:, :width]
    matrix = (directions / (variances + 1e-3) ** 0.25).T
    matrix = _turned(width, matrix.shape[0]) @ matrix
    matrix = matrix / ((features - middle) @ matrix.T).std()
    return matrix, -matrix @ middle


@torch.no_grad()
def placed(width: int) -> tuple[Tensor, Tensor]:
    """A matrix (width, 4) and a bias that put boxes on a bowl, so that near ones are alike."""
    across, down, up = (_turned(width, 3) * math.sqrt(width)).unbind(1)
    matrix = 1.5 * torch.stack([across, down, across, down], dim=1)
    return matrix, up - matrix.sum(1) / 2


@torch.no_grad()
def patches(convolution: nn.Conv2d, positions: Tensor, pictures: Tensor) -> None:
    """Nothing; the convolution that cuts patches is whitened, positions (patches, width) placed.

    The convolution may be without a bias: the positions then take its part.
    """
    cell, width = convolution.kernel_size[0], convolution.out_channels
    cut = nn.functional.unfold(pictures, cell, stride=cell)  # (batch, inputs, patches)
    matrix, bias = whitened(cut.transpose(1, 2).flatten(0, 1), width)
    convolution.weight.copy_(matrix.reshape(convolution.weight.shape))
    side = math.isqrt(len(positions))
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    boxes = torch.stack([right, down, right + 1, down + 1], dim=-1).reshape(-1, 4) / side
    bowl, offset = placed(width)
    positions.copy_(nn.functional.layer_norm(boxes @ bowl.T + offset, (width,)))
    if convolution.bias is None:
        positions.add_(bias)
    else:
        convolution.bias.copy_(bias)


def pairs(modules: Mapping[str, nn.Module]) -> Iterator[tuple[nn.Linear, nn.Linear]]:
    """The queries and keys of every attention among the modules of an encoder, by their names."""
    for name, module in modules.items():
        for query, key in (("query", "key"), ("q_proj", "k_proj")):
            if name.endswith(f".{query}") and isinstance(module, nn.Linear):
                other = modules[name.removesuffix(query) + key]
                assert isinstance(other, nn.Linear)
                yield module, other


@torch.no_grad()
def alike(attentions: Iterable[tuple[nn.Linear, nn.Linear]], heads: int) -> None:
    """Nothing; queries and keys become the same, so that like attends to like."""
    for query, key in attentions:
        width = query.weight.shape[0] // heads
        for head in range(heads):
            rows = slice(head * width, (head + 1) * width)
            same = 1.6 * _turned(query.weight.shape[1], width).T
            query.weight[rows] = same
            key.weight[rows] = same


def _turned(rows: int, columns: int) -> Tensor:
    """Random columns of length 1, at right angles to each other."""
    return torch.linalg.qr(torch.randn(rows, columns))[0]
