"""Token rows of different lengths in one tensor, padding behind, and the id that fills it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.models.signature import config_of, vocabulary_of


def pad_rows(rows: Sequence[Sequence[int]], fill: int) -> Tensor:
    """The rows in one tensor of integers, (batch, longest), `fill` behind the shorter ones."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (longest - len(row))] for row in rows], dtype=torch.long)


def padding_id(module: nn.Module, tokenizer: Any | None) -> int:
    """The id that fills padding: the model's own, the tokenizer's, its end of text, or 0.

    The model's comes first because some models look for it among their inputs.
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
