"""Baseline inputs with neutral tokens or zeros, where integrated gradients starts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.inputs.words import special_ids
from whyformer.models.signature import config_of, reads_pad_ids, vocabulary_of

NEUTRAL_ROLES = ("mask", "pad", "unk", "eos")  # in order of preference
SPECIAL_ROLES = ("bos", "eos", "cls", "sep", "pad")  # read from the config without a tokenizer


def baseline_arguments(
    arguments: Mapping[str, Any],
    carrier: str,
    module: nn.Module,
    tokenizer: Any | None = None,
    mask: Tensor | None = None,
    special: frozenset[int] | None = None,
) -> dict[str, Any]:
    """Return the arguments with neutral tokens or zeros; special tokens and padding stay.

    `special` is what `known_special_ids` returned, if that is known already.
    """
    value = arguments[carrier]
    if value.is_floating_point():
        return {**arguments, carrier: torch.zeros_like(value)}
    special = known_special_ids(module, tokenizer) if special is None else special
    kept = torch.tensor(sorted(special), dtype=value.dtype, device=value.device)
    replaced = torch.isin(value, kept, invert=True)
    if mask is not None:
        replaced &= mask
    neutral = value.masked_fill(replaced, neutral_id(module, tokenizer))
    return {**arguments, carrier: neutral}


def neutral_id(module: nn.Module, tokenizer: Any | None) -> int:
    """The id of the mask, padding, unknown or end-of-text token, whichever exists first.

    Never the padding id of a model that searches its inputs for it.
    """
    config = config_of(module)
    sources, size = (tokenizer, config), vocabulary_of(module)
    avoided = getattr(config, "pad_token_id", None) if reads_pad_ids(module) else None
    for role in NEUTRAL_ROLES:
        for source in sources:
            candidate = getattr(source, f"{role}_token_id", None)
            if not isinstance(candidate, int) or candidate in (avoided, -1):
                continue
            if size is None or candidate < size:
                return candidate
    return 0 if avoided != 0 else 1


def known_special_ids(module: nn.Module, tokenizer: Any | None) -> frozenset[int]:
    """Return the ids of special tokens, from the tokenizer or else from the model's config."""
    if tokenizer is not None:
        return special_ids(tokenizer)
    config = config_of(module)
    ids = (getattr(config, f"{role}_token_id", None) for role in SPECIAL_ROLES)
    return frozenset(i for i in ids if isinstance(i, int))
