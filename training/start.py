"""Initial weights that make training of a small model on image patches several times faster.

With random weights, the loss stays on a plateau for many steps: most patches are empty and
attention is almost even. Each function here sets some weights of an untrained model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

import torch
from torch import Tensor, nn

SPREAD = 0.05  # standard deviation of all other weights


@torch.no_grad()
def whitening(features: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return a matrix (width, inputs) and a bias that centre features and even out their scale.

    The principal directions, divided by the square root of their standard deviation, and rotated
    at random.
    """
    middle = features.mean(0)
    variances, directions = torch.linalg.eigh(torch.cov((features - middle).T))
    variances, directions = variances.flip(0)[:width], directions.flip(1)[:, :width]
    matrix = (directions / (variances + 1e-3) ** 0.25).T
    matrix = _random_rotation(width, matrix.shape[0]) @ matrix
    matrix = matrix / ((features - middle) @ matrix.T).std()
    return matrix, -matrix @ middle


@torch.no_grad()
def box_embedding(width: int) -> tuple[Tensor, Tensor]:
    """Return a matrix (width, 4) and a bias that give boxes near each other similar vectors."""
    across, down, up = (_random_rotation(width, 3) * math.sqrt(width)).unbind(1)
    matrix = 1.5 * torch.stack([across, down, across, down], dim=1)
    return matrix, up - matrix.sum(1) / 2


@torch.no_grad()
def set_patches(convolution: nn.Conv2d, positions: Tensor, pictures: Tensor) -> None:
    """Set the weights of the patch convolution and of the positions (patches, width).

    If the convolution has no bias, the positions get it.
    """
    cell, width = convolution.kernel_size[0], convolution.out_channels
    cut = nn.functional.unfold(pictures, cell, stride=cell)  # (batch, inputs, patches)
    matrix, bias = whitening(cut.transpose(1, 2).flatten(0, 1), width)
    convolution.weight.copy_(matrix.reshape(convolution.weight.shape))
    side = math.isqrt(len(positions))
    down, right = torch.meshgrid(torch.arange(side), torch.arange(side), indexing="ij")
    boxes = torch.stack([right, down, right + 1, down + 1], dim=-1).reshape(-1, 4) / side
    bowl, offset = box_embedding(width)
    positions.copy_(nn.functional.layer_norm(boxes @ bowl.T + offset, (width,)))
    if convolution.bias is None:
        positions.add_(bias)
    else:
        convolution.bias.copy_(bias)


def query_key_pairs(modules: Mapping[str, nn.Module]) -> Iterator[tuple[nn.Linear, nn.Linear]]:
    """Yield the query and key layers of every attention among named modules of an encoder."""
    for name, module in modules.items():
        for query, key in (("query", "key"), ("q_proj", "k_proj")):
            if name.endswith(f".{query}") and isinstance(module, nn.Linear):
                other = modules[name.removesuffix(query) + key]
                assert isinstance(other, nn.Linear)
                yield module, other


@torch.no_grad()
def share_queries_and_keys(attentions: Iterable[tuple[nn.Linear, nn.Linear]], heads: int) -> None:
    """Give queries and keys the same weights, so that similar tokens attend to each other."""
    for query, key in attentions:
        width = query.weight.shape[0] // heads
        for head in range(heads):
            rows = slice(head * width, (head + 1) * width)
            same = 1.6 * _random_rotation(query.weight.shape[1], width).T
            query.weight[rows] = same
            key.weight[rows] = same


def _random_rotation(rows: int, columns: int) -> Tensor:
    """Random orthonormal columns (rows, columns)."""
    return torch.linalg.qr(torch.randn(rows, columns))[0]
