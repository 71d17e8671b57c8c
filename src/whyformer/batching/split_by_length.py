"""A batch of texts of many lengths, run as several of similar length: less padding, same scores.

On a processor padding costs as much as words. Rows are sorted by length and cut into groups so
that all groups together cost least: a group costs its rows times its longest, and something for
being a pass of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy
from torch import nn

from whyformer.attribution import Attribution
from whyformer.attribution.merge import merge_parts
from whyformer.batching.budget import is_on_cpu
from whyformer.errors import WhyformerError
from whyformer.inputs.batch import Batch

MOST = 4096  # tokens in a group; a single text may have more
WORTH = 0.9  # of the cost of one batch: what the groups must stay below
# What a pass costs beyond its tokens, as so many tokens: reading every weight once more, and
# the work that is the same for models of any size, here in tokens x weights.
READING = 16
STARTING = 3e8

Explain = Callable[[Batch, Any], Attribution]


def in_buckets(
    prepared: Batch, module: nn.Module, target: Any, explain: Explain, whole: bool = False
) -> Attribution:
    """What `explain` gives for the batch and its target, by way of groups where that is cheaper.

    `whole` is for who must not have a batch taken apart.
    """
    each = _listed(target)
    groups = [] if whole else _groups(prepared, module, each)
    if len(groups) < 2:
        return explain(prepared, target)
    lengths = _lengths(prepared)
    parts: list[Attribution] = []
    for rows in groups:
        try:
            longest = max(lengths[row] for row in rows)
            wanted = [each[row] for row in rows] if isinstance(each, list) else each
            parts.append(explain(prepared.take(rows, longest), wanted))
        except WhyformerError:
            break
    if len(parts) < len(groups):
        return explain(prepared, target)  # and the error is about the sample's own number
    order = [row for rows in groups for row in rows]
    return merge_parts(parts, order, prepared.tokens, prepared.word_ids)


def _groups(prepared: Batch, module: nn.Module, target: Any) -> list[list[int]]:
    """The rows of each group; none where the batch has to be, or may as well be, one."""
    each = target if isinstance(target, list) else [target] * prepared.size
    if len(each) != prepared.size or not all(map(_is_class, each)):
        return []
    if prepared.size < 2 or not is_on_cpu(module):
        return []
    if not prepared.can_take_columns() or not prepared.can_take_rows(module):
        return []
    lengths = _lengths(prepared)
    if min(lengths) == max(lengths) and sum(lengths) <= MOST:
        return []
    return grouped(lengths, READING + STARTING / max(1, _weights(module)))


def grouped(lengths: Sequence[int], extra: float) -> list[list[int]]:
    """Rows in groups of least cost, the longest first; one group where that is as good."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    sizes = numpy.array([lengths[row] for row in order])
    count = len(sizes)
    best = numpy.zeros(count + 1)  # of the first so many rows
    starts = numpy.zeros(count + 1, dtype=int)  # where their last group begins
    for stop in range(1, count + 1):
        begins = numpy.arange(stop)
        tokens = sizes[:stop] * (stop - begins)
        costs = best[:stop] + tokens + extra
        costs[(tokens > MOST) & (begins < stop - 1)] = numpy.inf
        starts[stop] = int(costs.argmin())
        best[stop] = costs[starts[stop]]
    whole = sizes[0] * count
    if whole <= MOST and best[count] > WORTH * (whole + extra):
        return [order]
    groups, stop = [], count
    while stop:
        groups.append(order[starts[stop] : stop])
        stop = starts[stop]
    return groups[::-1]


def _lengths(prepared: Batch) -> list[int]:
    """Columns up to each sample's last token."""
    assert prepared.mask is not None
    mask = prepared.mask.int()
    found: list[int] = (mask.shape[1] - mask.flip(1).argmax(1)).tolist()
    return found


def _weights(module: nn.Module) -> int:
    """How many weights multiply each token: all matrices but those that are looked up."""
    return sum(
        weight.numel()
        for part in module.modules()
        if not isinstance(part, nn.Embedding)
        for weight in part.parameters(recurse=False)
        if weight.ndim > 1
    )


def _listed(target: Any) -> Any:
    """A target, as a list where it is one for each sample."""
    target = target.tolist() if hasattr(target, "tolist") else target
    return list(target) if isinstance(target, tuple) else target


def _is_class(wanted: Any) -> bool:
    """Whether a target means the same however a batch is cut: positions and callables may not."""
    return wanted is None or isinstance(wanted, int | str)
