"""Pad rows of token ids to one length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.models.signature import config_of, vocabulary_of


def pad_rows(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """Return the rows as one tensor (batch, longest), with `fill` after the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], dtype=torch.long)


def padding_id(module: nn.Module, tokenizer: Any | None) -> int:
    """The padding id of the model, else of the tokenizer, else its end of text, else 0.

    The model's comes first because some models search their input ids for it.
    """
    size = vocabulary_of(module)
    for candidate in (
        getattr(config_of(module), "pad_token_id", None),
        getattr(tokenizer, "pad_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    ):
        if isinstance(candidate, int) and candidate >= 0 and (size is None or candidate < size):
            return candidate
    return 0
