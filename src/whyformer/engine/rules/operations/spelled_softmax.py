"""Attention in other spellings: exp(x) / sum, and a map that is the right factor of a product."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.operations import tensor_tags as tags

_EXPONENT = "_whyformer_exponent"


def note_exponent(output: Any, exponent: Any) -> None:
    """Note on a tensor that it is the exponential of another."""
    if isinstance(output, Tensor):
        setattr(output, _EXPONENT, exponent)


def find_softmax(dividend: Any, divisor: Any) -> tuple[Tensor, int] | None:
    """The x and the axis if a quotient is softmax(x, axis) written out; else None."""
    exponent = getattr(dividend, _EXPONENT, None)
    if exponent is None or not isinstance(divisor, Tensor) or divisor.dim() != dividend.dim():
        return None
    summed = [i for i, n in enumerate(divisor.shape) if n == 1 < dividend.shape[i]]
    if len(summed) != 1:
        return None
    with torch.no_grad():
        found = torch.softmax(exponent, summed[0])
        tolerance = torch.finfo(found.dtype).eps ** 0.75
        if not torch.allclose(found, dividend / divisor, rtol=tolerance, atol=tolerance):
            return None
    return exponent, summed[0]


def has_map_on_the_right(args: tuple) -> bool:
    """Whether the right factor of a product is an attention map (key, query), and the left is not.

    A product adds up over the last axis of its left factor, which is the key in a map.
    """
    if len(args) < 2 or not tags.has_tag(args[1], tags.ATTENTION):
        return False
    return not tags.has_tag(args[0], tags.ATTENTION) and min(args[0].dim(), args[1].dim()) > 1


def multiply_transposed(left: Tensor, right: Tensor) -> Tensor:
    """left @ right, with the right factor first."""
    product = torch.matmul(right.transpose(-2, -1), left.transpose(-2, -1))
    return product.transpose(-2, -1)
