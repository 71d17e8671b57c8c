"""Ask a language model for the scores that the target reads, and for no others.

Over a large vocabulary, the scores of a long prompt cost as much as several blocks. Models of
transformers take `logits_to_keep`, how many scores to compute, counted from the end.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from whyformer.errors import TargetError
from whyformer.inputs.batch import Batch
from whyformer.models.signature import forward_of
from whyformer.targets.find_text import find_text
from whyformer.targets.specs import Contrast, Token

LOGITS_TO_KEEP = "logits_to_keep"
# Arguments of models that compute a loss, for which they need all scores.
NEED_ALL = ("labels", "shift_labels")


def keep_read_scores(batch: Batch, target: Any, module: nn.Module) -> Batch:
    """Return the batch that asks for the scores from the first that the target reads on.

    The batch comes back unchanged if the model has no such argument, if the user set it, or if it
    is not known what the target reads (a callable, a position that is not there).
    """
    if batch.stream != "text" or batch.mask is None or batch.of("generated") is not None:
        return batch
    if callable(target) or not _can_leave_out(batch, module):
        return batch
    targets = target.tolist() if hasattr(target, "tolist") else target
    if not isinstance(targets, list | tuple):
        targets = [targets] * batch.size
    if len(targets) != batch.size:
        return batch  # refused where the target is resolved
    first = [_first_column(one, batch, sample) for sample, one in enumerate(targets)]
    known = [column for column in first if column is not None]
    if len(known) < len(first):
        return batch
    return keep_scores(batch, batch.mask.shape[1] - min(known), module)


def keep_scores(batch: Batch, count: int, module: nn.Module) -> Batch:
    """Return the batch that asks for the last `count` scores, if the model can leave out others."""
    if not _can_leave_out(batch, module):
        return batch
    kept = {LOGITS_TO_KEEP: count}
    return replace(
        batch,
        arguments={**batch.arguments, **kept},
        baseline_arguments={**batch.baseline_arguments, **kept},
    )


def column_of(position: Any, batch: Batch, sample: int) -> int | None:
    """Return the model's column of a user's position; None if no token is there.

    Negative positions count from the sample's last token.
    """
    assert batch.mask is not None
    if isinstance(position, bool) or not isinstance(position, int):
        return None
    real = batch.mask[sample]
    if position < 0:
        columns = real.nonzero().flatten().tolist()
        return int(columns[position]) if position >= -len(columns) else None
    width = len(real) if batch.layout is None else batch.layout.user_columns
    if position >= width:
        return None
    column = position if batch.layout is None else batch.layout.column(sample, position)
    return column if column < len(real) and bool(real[column]) else None


def _can_leave_out(batch: Batch, module: nn.Module) -> bool:
    """Whether the model takes `logits_to_keep`, and nothing in the inputs speaks against it."""
    given = batch.arguments.get
    if LOGITS_TO_KEEP in batch.arguments or any(given(name) is not None for name in NEED_ALL):
        return False
    return LOGITS_TO_KEEP in forward_of(module).names


def _first_column(target: Any, batch: Batch, sample: int) -> int | None:
    """The first of the text's columns whose scores the target reads; None if that is not known."""
    if isinstance(target, Contrast):
        sides = [_first_column(one, batch, sample) for one in (target.chosen, target.other)]
        return None if None in sides else min(one for one in sides if one is not None)
    if target is None or isinstance(target, int | str):
        return column_of(-1, batch, sample)
    if not isinstance(target, Token):
        return None
    if not isinstance(target.position, str):
        return column_of(target.position, batch, sample)
    try:
        before = find_text(target.position, batch, sample, target.occurrence).first - 1
    except TargetError:
        return None  # raised again where the target is resolved
    return before if before >= 0 else None
