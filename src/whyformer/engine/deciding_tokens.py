"""The deciding tokens: those that the head reads, as weights that add up to 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.errors import OptionError, TargetError


def tokens_read(gradient: Tensor, mask: Tensor) -> Tensor:
    """Which tokens' last states move the target, (batch, tokens).

    `gradient` is the target's at what the last block returned. Inferring it so needs no table of
    heads: a class token, two of them, the last token or an average all show themselves.
    """
    return (gradient != 0).any(-1) & mask


def read_by_head(reads: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """The tokens read in equal parts, (batch, tokens), of each stack in which any is."""
    somewhere = torch.stack([tokens.any(1) for tokens in reads.values()]).any(0)
    if not somewhere.all():
        raise TargetError(
            "the target does not depend on what the last block returned, so no token decides it:"
            " choose another target, or name the deciding token by deciding='first', 'last',"
            " 'mean' or its index"
        )
    weights = {name: tokens.to(dtype) for name, tokens in reads.items() if tokens.any()}
    return {name: w / w.sum(1, keepdim=True).clamp(min=1) for name, w in weights.items()}


def check_deciding(deciding: Any) -> None:
    """Nothing; raises where no token is called that."""
    if deciding not in (None, "first", "last", "mean") and type(deciding) is not int:
        raise OptionError(
            f"deciding={deciding!r}: choose 'first', 'last', 'mean' or the index of a token"
        )


def named_tokens(deciding: Any, mask: Tensor) -> Tensor:
    """Weights of the tokens that the caller named, (batch, tokens)."""
    count = mask.shape[1]
    positions = torch.arange(count, device=mask.device).expand_as(mask)
    if deciding == "mean":
        weights = mask.double()
    else:
        index = {"first": 0, "last": -1}.get(deciding, deciding)
        last = positions.masked_fill(~mask, -1).amax(1)
        chosen = last + 1 + index if index < 0 else torch.full_like(last, index)
        if ((chosen < 0) | (chosen > last)).any():
            raise OptionError(
                f"deciding={deciding}: the shortest sample has {int(last.min()) + 1} tokens"
            )
        weights = (positions == chosen.unsqueeze(1)).double()
    return weights / weights.sum(1, keepdim=True)
