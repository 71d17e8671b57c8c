"""The greatest flow from one node of a layered graph to each of some others, with its proof."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from whyformer.maximum_flow.preflow import Preflow
from whyformer.maximum_flow.residual import Edges

# The edges that are left out have less than this capacity together.
LEFT_OUT = 1e-12
# Numbers in the largest matrix of a batch: what a processor keeps close by.
BATCH = 60_000


@dataclass(frozen=True)
class Flows:
    """The maximum flow into each sink; what gets there and what could are the same number.

    The one is a flow within the capacities, so the maximum is not less; the other is a cut, so it
    is not more. They differ by rounding, far below 1e-9.
    """

    value: np.ndarray  # (sinks,) what a flow brings there
    cut: np.ndarray  # (sinks,) capacity of edges without which nothing gets there


def maximum_flows(
    edges: Sequence[Edges], source: tuple[int, int], group: int, sinks: np.ndarray
) -> Flows:
    """The maximum flow from a node to each of some nodes of a group below it, for each alone.

    A node is named by its group and its place there. Groups are numbered from below. Sinks are
    taken a batch at a time: a small graph for all at once, a large one for each on its own.
    """
    value, cut = np.zeros(len(sinks)), np.zeros(len(sinks))
    edges, kept = _reached(edges, source)
    which = np.flatnonzero(np.isin(sinks, kept.get(group, [])))
    if group == source[0] or not len(which):
        return Flows(value, cut)
    places = np.searchsorted(kept[group], sinks)
    batch = max(1, BATCH // max(one.capacity.size for one in edges))
    for first in range(0, len(which), batch):
        some = which[first : first + batch]
        parts, leading = _leading(edges, group, places[some])
        sizes = {g: len(nodes) for g, nodes in leading.items()}
        at = np.searchsorted(leading[group], places[some])
        value[some], cut[some] = Preflow(parts, sizes, source[0], group, at).run()
    return Flows(value, cut)


def _reached(
    edges: Sequence[Edges], source: tuple[int, int]
) -> tuple[list[Edges], dict[int, np.ndarray]]:
    """The edges that the source reaches, and the places of its nodes in their groups."""
    least = LEFT_OUT / max(1, sum(one.capacity.size for one in edges))
    edges = [Edges(e.above, e.below, np.where(e.capacity > least, e.capacity, 0)) for e in edges]
    marks: dict[int, np.ndarray] = {}
    for one in sorted(edges, key=lambda one: one.above, reverse=True):
        if one.above == source[0]:
            marks[source[0]] = np.arange(len(one.capacity)) == source[1]
        if one.above in marks:
            below = marks[one.above] @ one.capacity > 0
            marks[one.below] = below | marks[one.below] if one.below in marks else below
    return _among(edges, marks)


def _leading(
    edges: Sequence[Edges], group: int, sinks: np.ndarray
) -> tuple[list[Edges], dict[int, np.ndarray]]:
    """The edges that lead to any of the sinks, and the places of their nodes in their groups."""
    marks: dict[int, np.ndarray] = {}
    for one in sorted(edges, key=lambda one: one.above):
        if one.below == group:
            marks[group] = np.isin(np.arange(one.capacity.shape[1]), sinks)
        if one.below in marks:
            above = one.capacity @ marks[one.below] > 0
            marks[one.above] = above | marks[one.above] if one.above in marks else above
    return _among(edges, marks)


def _among(
    edges: Sequence[Edges], marks: dict[int, np.ndarray]
) -> tuple[list[Edges], dict[int, np.ndarray]]:
    """The edges among marked nodes, and the places of these in their groups."""
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
