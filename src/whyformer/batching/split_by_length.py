"""Split a batch of texts into parts of similar length, if that is cheaper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from whyformer.batching.budget import is_on_cpu, pass_cost
from whyformer.batching.plan import plan_batches
from whyformer.inputs.batch import Batch

MOST_TOKENS = 4096  # in a part; a single text may have more
LARGEST_COST_SHARE = 0.9  # the parts must cost less than this share of the whole


@dataclass(frozen=True)
class BatchPart:
    """Some rows of a batch, cut to their longest, and their targets."""

    rows: tuple[int, ...]
    batch: Batch
    target: Any


def split_by_length(batch: Batch, module: nn.Module, target: Any) -> list[BatchPart]:
    """Return the parts that together cost least; one part if splitting is unsafe or not cheaper.

    Positions and callables may mean something else in another batch, so only targets that are
    classes are split. The caller makes sure that padding changes nothing for this model.
    """
    whole = [BatchPart(tuple(range(batch.size)), batch, target)]
    targets = _as_list(target)
    per_sample = targets if isinstance(targets, list) else [targets] * batch.size
    if len(per_sample) != batch.size or not all(map(_is_class, per_sample)):
        return whole
    if batch.size < 2 or not is_on_cpu(module):
        return whole
    if not batch.can_take_columns() or not batch.can_take_rows(module):
        return whole
    lengths = row_lengths(batch)
    groups = plan_batches(lengths, tokens=MOST_TOKENS, pass_cost=pass_cost(module))
    if len(groups) < 2 or not _is_cheaper(groups, lengths, pass_cost(module)):
        return whole
    return [
        BatchPart(
            tuple(rows),
            batch.take(rows, max(lengths[row] for row in rows)),
            [targets[row] for row in rows] if isinstance(targets, list) else targets,
        )
        for rows in groups
    ]


def row_lengths(batch: Batch) -> list[int]:
    """Return the number of columns up to each sample's last token, one per sample."""
    assert batch.mask is not None
    mask = batch.mask.int()
    lengths: list[int] = (mask.shape[1] - mask.flip(1).argmax(1)).tolist()
    return lengths


def _is_cheaper(groups: list[list[int]], lengths: list[int], cost: float) -> bool:
    """Whether the groups are clearly cheaper than one batch, or one batch would be too large."""
    whole = max(lengths) * len(lengths)
    parts = sum(max(lengths[row] for row in rows) * len(rows) + cost for rows in groups)
    return whole > MOST_TOKENS or parts <= LARGEST_COST_SHARE * (whole + cost)


def _as_list(target: Any) -> Any:
    """A target, as a list if it has one entry per sample."""
    target = target.tolist() if hasattr(target, "tolist") else target
    return list(target) if isinstance(target, tuple) else target


def _is_class(target: Any) -> bool:
    return target is None or isinstance(target, int | str)
