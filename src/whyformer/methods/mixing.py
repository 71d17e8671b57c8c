"""Walking down the layers: a row of relevance times each layer's mixing of tokens."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from whyformer.rules.stabilise import ratio


def walk_down(
    rows: Tensor, mixings: Iterable[Tensor], *, residual: bool = True, normalize: bool = False
) -> Tensor:
    """rows @ M_last @ ... @ M_first with M = mixing + identity, (batch, rows, tokens).

    Row by row from the top is the same product as the papers', at the cost of a vector times a
    matrix per layer. `normalize` makes each row of M add up to 1.
    """
    for mixing in mixings:
        rows = rows.to(mixing.dtype)
        if residual and not normalize:
            rows = rows + rows @ mixing
            continue
        if residual:
            mixing = mixing + torch.eye(mixing.shape[-1], dtype=mixing.dtype, device=mixing.device)
        if normalize:
            mixing = ratio(mixing, mixing.sum(-1, keepdim=True))
        rows = rows @ mixing
    return rows
