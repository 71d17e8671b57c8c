"""The deciding tokens: those that the head reads, as weights that sum to 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide
from whyformer.errors import OptionError, TargetError


def find_deciding(
    deciding: str | int | None, gradients: Mapping[str, Tensor], masks: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Return the weights (batch, tokens) of each stack that the head reads.

    Args:
        deciding: The token that the user named; None to infer it from the gradient, which is not
            0 at a class token, at the last token, or at all tokens of an average.
        gradients: The gradient of the explained value at each stack's exit.
        masks: False at padding, (batch, tokens) by stack.
    """
    read = {name: (g != 0).any(-1) & masks[name] for name, g in gradients.items()}
    if deciding is not None:
        names = [name for name, tokens in read.items() if tokens.any()] or [*read]
        return {name: _named_tokens(deciding, masks[name]) for name in names}
    has_deciding = torch.stack([tokens.any(1) for tokens in read.values()]).any(0)
    if not has_deciding.all():
        sample = int((~has_deciding).nonzero()[0])
        if any(bool((g[sample] != 0).any()) for g in gradients.values()):
            raise TargetError(
                f"the target reads only padding of sample {sample}, so no token decides it",
                argument="target",
                remedy="Pad on the left, or name a real token: target=wf.token(position)",
            )
        raise TargetError(
            "the target does not depend on what the last block returned, so no token decides it",
            argument="deciding",
            remedy="Choose another target, or name the deciding token: deciding='first', 'last',"
            " 'mean' or its index",
        )
    dtype = wide(next(iter(gradients.values()))).dtype
    weights = {name: tokens.to(dtype) for name, tokens in read.items() if tokens.any()}
    return {name: w / w.sum(1, keepdim=True).clamp(min=1) for name, w in weights.items()}


def check_deciding(deciding: Any) -> None:
    """Raise OptionError if `deciding` names no token."""
    if deciding not in (None, "first", "last", "mean") and type(deciding) is not int:
        raise OptionError(
            f"deciding={deciding!r} names no token",
            argument="deciding",
            remedy="Use 'first', 'last', 'mean' or the index of a token",
        )


def _named_tokens(deciding: Any, mask: Tensor) -> Tensor:
    """Weights of the tokens that the user named, (batch, tokens)."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    if deciding == "mean":
        weights = mask.double()
    else:
        index = {"first": 0, "last": -1}.get(deciding, deciding)
        last = positions.masked_fill(~mask, -1).amax(1)
        chosen = last + 1 + index if index < 0 else torch.full_like(last, index)
        if ((chosen < 0) | (chosen > last)).any():
            raise OptionError(
                f"deciding={deciding}, but the shortest sample has {int(last.min()) + 1} tokens",
                argument="deciding",
                remedy="Name a token that every sample has",
            )
        weights = (positions == chosen.unsqueeze(1)).double()
    return weights / weights.sum(1, keepdim=True)
