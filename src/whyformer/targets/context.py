"""Which tokens of a question-answering input are the context, where the answer is looked for."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.inputs.batch import Batch
from whyformer.inputs.words import special_ids


def context_columns(batch: Batch, sample: int) -> Tensor | None:
    """Return (tokens,), True at the second text of a pair; None if there is none, or unknown.

    The tokenizer tells; else the token types; else what follows the first separator token.
    """
    ids = batch.arguments.get(batch.carrier)
    if batch.mask is None or not isinstance(ids, Tensor) or ids.is_floating_point():
        return None
    if batch.parts is not None:
        second = torch.tensor([part == 1 for part in batch.parts[sample]])
        return second if bool(second.any()) else None
    mask, row = batch.mask[sample].cpu(), ids[sample].cpu()
    words = mask
    if batch.tokenizer is not None:
        special = torch.tensor(sorted(special_ids(batch.tokenizer)), dtype=row.dtype)
        words = mask & ~torch.isin(row, special)
    types = batch.arguments.get("token_type_ids")
    if isinstance(types, Tensor):
        second = words & (types[sample].cpu() == 1)
    else:
        separators = _separators(batch, row) & mask
        # A pair has a separator between its texts and one at its end.
        inner = separators.int().cumsum(0)
        second = words & (inner >= 1) & (inner < inner[-1])
    return second if bool(second.any()) else None


def _separators(batch: Batch, row: Tensor) -> Tensor:
    """(tokens,) True at separator tokens."""
    found = getattr(batch.tokenizer, "sep_token_id", None)
    return torch.zeros_like(row, dtype=torch.bool) if found is None else row == found
