"""Maximum flow from one node of a layered graph to each of several sinks, with a proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whyformer.maximum_flow.preflow import Preflow
from whyformer.maximum_flow.residual import Edges

# Small edges are left out; together they have less than this capacity.
LEFT_OUT = 1e-12
# Numbers in the largest matrix of a batch, so that it stays in the CPU cache.
BATCH = 60_000


@dataclass(frozen=True)
class Flows:
    """The maximum flow into each sink, and a cut of the same capacity.

    `value` is a flow within the capacities, so the maximum is not less. `cut` is a cut, so the
    maximum is not more. They differ by rounding only, far below 1e-9.
    """

    value: np.ndarray  # (sinks,)
    cut: np.ndarray  # (sinks,)


def maximum_flows(
    edges: Sequence[Edges], source: tuple[int, int], group: int, sinks: np.ndarray
) -> Flows:
    """Return the maximum flow from one node to each sink alone.

    Args:
        edges: The graph; groups of nodes are numbered from below.
        source: (group, index in the group) of the source.
        group: The group of the sinks, below the source.
        sinks: Their indices in the group. A small graph takes all sinks at once, a large one
            takes them one by one.
    """
    value, cut = np.zeros(len(sinks)), np.zeros(len(sinks))
    edges, kept = _reachable(edges, source)
    which = np.flatnonzero(np.isin(sinks, kept.get(group, [])))
    if group == source[0] or not len(which):
        return Flows(value, cut)
    places = np.searchsorted(kept[group], sinks)
    batch = max(1, BATCH // max(one.capacity.size for one in edges))
    for first in range(0, len(which), batch):
        some = which[first : first + batch]
        parts, leading = _leading_to(edges, group, places[some])
        sizes = {g: len(nodes) for g, nodes in leading.items()}
        at = np.searchsorted(leading[group], places[some])
        value[some], cut[some] = Preflow(parts, sizes, source[0], group, at).run()
    return Flows(value, cut)


def _reachable(
    edges: Sequence[Edges], source: tuple[int, int]
) -> tuple[list[Edges], dict[int, np.ndarray]]:
    """The edges that the source reaches, and the indices of their nodes in each group."""
    least = LEFT_OUT / max(1, sum(one.capacity.size for one in edges))
    edges = [Edges(e.above, e.below, np.where(e.capacity > least, e.capacity, 0)) for e in edges]
    marks: dict[int, np.ndarray] = {}
    for one in sorted(edges, key=lambda one: one.above, reverse=True):
        if one.above == source[0]:
            marks[source[0]] = np.arange(len(one.capacity)) == source[1]
        if one.above in marks:
            below = marks[one.above] @ one.capacity > 0
            marks[one.below] = below | marks[one.below] if one.below in marks else below
    return _keep_marked(edges, marks)


def _leading_to(
    edges: Sequence[Edges], group: int, sinks: np.ndarray
) -> tuple[list[Edges], dict[int, np.ndarray]]:
    """The edges that lead to any sink, and the indices of their nodes in each group."""
    marks: dict[int, np.ndarray] = {}
    for one in sorted(edges, key=lambda one: one.above):
        if one.below == group:
            marks[group] = np.isin(np.arange(one.capacity.shape[1]), sinks)
        if one.below in marks:
            above = one.capacity @ marks[one.below] > 0
            marks[one.above] = above | marks[one.above] if one.above in marks else above
    return _keep_marked(edges, marks)


def _keep_marked(
    edges: Sequence[Edges], marks: dict[int, np.ndarray]
) -> tuple[list[Edges], dict[int, np.ndarray]]:
    """The edges among marked nodes, and the indices of these nodes in each group."""
    kept = {g: np.flatnonzero(mark) for g, mark in marks.items() if mark.any()}
    parts = []
    for one in edges:
        if one.above in kept and one.below in kept:
            if marks[one.above].all() and marks[one.below].all():
                parts.append(one)
            else:
                nodes = np.ix_(kept[one.above], kept[one.below])
                parts.append(Edges(one.above, one.below, one.capacity[nodes]))
    return parts, kept
