"""Batches of similar length at the least cost: the one planner that every loop uses.

Padding tokens cost as much as real ones. Inputs are sorted by length and cut so that all batches
together cost least: a batch costs its size times its longest input, plus a constant per pass.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy


def plan_batches(
    lengths: Sequence[int],
    *,
    tokens: int,
    samples: int | None = None,
    kinds: Sequence[Hashable] | None = None,
    pass_cost: float = 0.0,
) -> list[list[int]]:
    """Return the indices of the inputs in each batch, the longest inputs first.

    Args:
        lengths: Tokens of each input.
        tokens: The most tokens in a batch, padding included; one longer input is a batch alone.
        samples: The most inputs in a batch; None for any number.
        kinds: What must be the same within a batch, one per input; None if all go together.
        pass_cost: What a forward pass costs beyond its tokens, counted in tokens.

    Returns:
        Every index once. The same lengths, kinds and limits give the same batches.
    """
    groups: dict[Hashable, list[int]] = {}
    for index, kind in enumerate(kinds or [None] * len(lengths)):
        groups.setdefault(kind, []).append(index)
    return [
        [members[i] for i in batch]
        for members in groups.values()
        for batch in _cut([lengths[i] for i in members], tokens, samples, pass_cost)
    ]


def _cut(
    lengths: Sequence[int], tokens: int, samples: int | None, pass_cost: float
) -> list[list[int]]:
    """The cheapest cut of the inputs sorted by length, by dynamic programming."""
    order = sorted(range(len(lengths)), key=lambda i: (-lengths[i], i))
    sizes = numpy.array([lengths[i] for i in order])
    count = len(order)
    best = numpy.zeros(count + 1)  # cost of the first `stop` inputs
    starts = numpy.zeros(count + 1, dtype=int)  # where their last batch begins
    for stop in range(1, count + 1):
        lowest = 0 if samples is None else max(0, stop - samples)
        begins = numpy.arange(lowest, stop)
        padded = sizes[lowest:stop] * (stop - begins)
        costs = best[lowest:stop] + padded + pass_cost
        costs[(padded > tokens) & (begins < stop - 1)] = numpy.inf
        # The last of equal costs would make more and smaller batches; take the first.
        chosen = int(costs.argmin())
        starts[stop], best[stop] = lowest + chosen, costs[chosen]
    batches, stop = [], count
    while stop:
        batches.append(order[starts[stop] : stop])
        stop = int(starts[stop])
    return batches[::-1]
