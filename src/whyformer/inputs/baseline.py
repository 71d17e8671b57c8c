"""The same inputs with nothing said: what integrated gradients starts from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.inputs.words import special_ids
from whyformer.models.signature import config_of, reads_pad_ids, vocabulary_of

SILENT = ("mask", "pad", "unk", "eos")
# Where only the model's config tells which ids frame a text.
FRAME = ("bos", "eos", "cls", "sep", "pad")


def baseline_arguments(
    arguments: Mapping[str, Any],
    carrier: str,
    module: nn.Module,
    tokenizer: Any | None = None,
    mask: Tensor | None = None,
) -> dict[str, Any]:
    """The arguments with silent tokens or zeros in the carrier; frame and padding stay."""
    value = arguments[carrier]
    if value.is_floating_point():
        return {**arguments, carrier: torch.zeros_like(value)}
    frame = torch.tensor(sorted(_frame(module, tokenizer)), dtype=value.dtype, device=value.device)
    speaks = ~torch.isin(value, frame)
    if mask is not None:
        speaks &= mask
    silent = torch.full_like(value, silent_id(module, tokenizer))
    return {**arguments, carrier: torch.where(speaks, silent, value)}


def silent_id(module: nn.Module, tokenizer: Any | None) -> int:
    """The id that says least: mask, padding, unknown or end of text, whichever exists first.

    Never the padding id of a model that reads meaning into it.
    """
    sources = (tokenizer, config_of(module))
    size = vocabulary_of(module)
    avoided = getattr(config_of(module), "pad_token_id", None) if reads_pad_ids(module) else None
    for role in SILENT:
        for source in sources:
            candidate = getattr(source, f"{role}_token_id", None)
            if not isinstance(candidate, int) or candidate in (avoided, -1):
                continue
            if size is None or candidate < size:
                return candidate
    return 0 if avoided != 0 else 1


def _frame(module: nn.Module, tokenizer: Any | None) -> frozenset[int]:
    """Ids that frame a text rather than say something."""
    if tokenizer is not None:
        return special_ids(tokenizer)
    config = config_of(module)
    ids = (getattr(config, f"{role}_token_id", None) for role in FRAME)
    return frozenset(i for i in ids if isinstance(i, int))
