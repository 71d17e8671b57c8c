"""Maximum flow through layered graphs by push-relabel (Goldberg and Tarjan 1988), in waves.

A node may hold excess flow that it could not push yet. Each wave first labels every node with the
number of turns on its residual path to the sink: 0 is straight down, 1 is up and then down, and so
on. Then nodes, from the farthest to the nearest, push their excess one step along such paths. A
node that still has excess has used up its paths, so its label grows in the next wave, or it is cut
off from the sink. Labels never shrink, so the waves end.

How a node splits its excess is free. In order of preference: in the proportions in which the sink
would draw it if each edge gave the same part of its capacity (first wave only); no more to each
node than that node can push on; the rest. With the first, one wave is enough for most sinks.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whyformer.maximum_flow.residual import Edges, Residual, Step

# Flow below this counts as zero: with ten thousand nodes, 1e-10 in all.
NOTHING = 1e-14
NEVER = np.iinfo(np.int32).max

Nodes = dict[int, np.ndarray]  # (batch, nodes) by group
Neighbours = dict[int, list[tuple[int, Residual]]]  # (group, edges) by group


class Preflow:
    """Flows from one source to a batch of sinks: the excess of each node, the flow of each edge.

    Groups of nodes are numbered from below. Every node can be reached from the source, which is
    alone in its group.
    """

    def __init__(
        self, edges: Sequence[Edges], sizes: dict[int, int], source: int, sink: int, at: np.ndarray
    ) -> None:
        batch = len(at)
        self.edges, self.source = edges, source
        self.sink, self._at = sink, (np.arange(batch), at)
        self.groups = sorted(sizes)
        self.down: Neighbours = {g: [] for g in self.groups}
        self.up: Neighbours = {g: [] for g in self.groups}
        for one in edges:
            residual = Residual.of(one, batch)
            self.down[one.above].append((one.below, residual))
            self.up[one.below].append((one.above, residual))
        self.held: Nodes = {g: np.zeros((batch, n)) for g, n in sizes.items()}
        # All that its edges can carry; more could not leave it.
        self.held[source][:] = sum(one.capacity.sum() for one in edges if one.above == source)
        self.turns: Nodes = {g: np.zeros((batch, n), dtype=np.int32) for g, n in sizes.items()}
        self.passes: Nodes = {}  # what each node alone can push on in this wave

    def run(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the flow into each sink, and the capacity of a cut that proves it is maximal."""
        shares: Nodes | None = None
        while (most := self._relabel()) is not None:
            shares = self._shares() if shares is None else {}
            for turns in range(most, -1, -1):
                for group in self.groups if turns % 2 else self.groups[::-1]:
                    self._push(group, turns, shares)
        return self.held[self.sink][self._at], self._cut()

    def _relabel(self) -> int | None:
        """Label the nodes; return the largest label of any excess, None if none can be pushed.

        Labels never shrink, so the search for a node starts at its last label. The search ends
        when every node with excess is labelled; nodes that it does not reach are cut off for good.
        """
        holding = {g: self._holding(g) & (self.turns[g] < NEVER) for g in self.groups}
        going = _any(holding)
        if not going.any():
            return None
        self.passes = {g: np.zeros_like(held) for g, held in self.held.items()}
        self.passes[self.sink][self._at] = np.where(going, np.inf, 0)
        unseen = {g: (turns < NEVER) & going[:, None] for g, turns in self.turns.items()}
        unseen[self.sink][self._at] = False
        turns, found = 0, True
        while found:
            found = False
            # Go up the layers for paths down and vice versa: a node comes after those it leads to.
            for group in self.groups[::-1] if turns % 2 else self.groups:
                new = self._label_nodes(group, turns, unseen[group])
                if new is not None:
                    found = True
                    self.turns[group][new] = turns
                    unseen[group] &= ~new
                    holding[group] &= ~new
            going = _any(holding)
            if not going.any():
                return turns
            for one in unseen.values():
                one &= going[:, None]
            turns += 1
        for group, one in unseen.items():
            self.turns[group][one] = NEVER
        return turns

    def _label_nodes(self, group: int, turns: int, unseen: np.ndarray) -> np.ndarray | None:
        """The nodes of a group that get this label, (batch, nodes); sets what they can push on."""
        candidates = unseen & (self.turns[group] <= turns)
        if not candidates.any():
            return None
        total = np.zeros_like(self.held[group])
        for end, step in self._steps(group, turns, candidates):
            total += step.out_of(np.minimum(step.room, step.at_end(self.passes[end])))
        new = candidates & (total > NOTHING)
        self.passes[group][new] = total[new]
        return new if new.any() else None

    def _steps(self, group: int, turns: int, start: np.ndarray) -> list[tuple[int, Step]]:
        """The steps from some nodes to nodes labelled before them, with the group each leads to."""
        down = turns % 2 == 0
        steps = []
        for end, residual in (self.down if down else self.up)[group]:
            found = (self.passes[end] > 0) & (self.turns[end] <= turns)
            if found.any():
                steps.append((end, Step(residual, down, start, found)))
        return steps

    def _shares(self) -> Nodes:
        """The flow that the sink would draw through each node, straight down."""
        shares = {g: np.zeros_like(held) for g, held in self.held.items()}
        shares[self.sink][self._at] = np.inf
        found = {g: (passes > 0).astype(float) for g, passes in self.passes.items()}
        for group in self.groups:
            above = [(g, residual.edges.capacity) for g, residual in self.up[group]]
            if above:
                total = np.sum([found[g] @ capacity for g, capacity in above], axis=0)
                part = _part(shares[group], total) * found[group]
                for g, capacity in above:
                    shares[g] += found[g] * (part @ capacity.T)
        return shares

    def _push(self, group: int, turns: int, shares: Nodes) -> None:
        """Push the excess of a group's nodes with this label to nodes that were labelled before."""
        start = self._holding(group) & (self.turns[group] == turns) & (self.passes[group] > 0)
        if not start.any():
            return
        steps = self._steps(group, turns, start)
        passes = [self.passes[end] * (self.turns[end] <= turns) for end, _ in steps]
        held = self.held[group] * start
        self.held[group][start] = 0
        if shares:
            missing = [np.maximum(shares[end] - self.held[end], 0) for end, _ in steps]
            parts = [
                _part(lack, step.into(step.room)) * (near > 0)
                for (_, step), lack, near in zip(steps, missing, passes, strict=True)
            ]
            requests = [s.room * s.at_end(part) for (_, s), part in zip(steps, parts, strict=True)]
            held = self._move(steps, held, requests)
        if (held > NOTHING).any():
            requests = [
                np.minimum(s.room, s.at_end(p)) for (_, s), p in zip(steps, passes, strict=True)
            ]
            held = self._move(steps, held, requests)
        if (held > NOTHING).any():
            requests = [s.room * s.at_end(p > 0) for (_, s), p in zip(steps, passes, strict=True)]
            held = self._move(steps, held, requests)
        self.held[group] += held
        for _, step in steps:
            step.keep()

    def _move(
        self, steps: list[tuple[int, Step]], held: np.ndarray, requests: list[np.ndarray]
    ) -> np.ndarray:
        """Move the requested flows, scaled to each node's excess; return the remaining excess."""
        total = np.sum(
            [s.out_of(flow) for (_, s), flow in zip(steps, requests, strict=True)], axis=0
        )
        part = _part(held, total)
        for (end, step), flow in zip(steps, requests, strict=True):
            flow *= step.at_start(part)
            step.room -= flow
            self.held[end] += step.into(flow)
        return np.maximum(held - part * total, 0)

    def _holding(self, group: int) -> np.ndarray:
        """The nodes with excess, except the sink, (batch, nodes)."""
        holding = self.held[group] > NOTHING
        if group == self.sink:
            holding[self._at] = False
        return holding

    def _cut(self) -> np.ndarray:
        """Capacity from the source and the nodes that are cut off to all others, (batch,)."""
        off = {g: (turns == NEVER).astype(float) for g, turns in self.turns.items()}
        off[self.source][:] = 1
        crossing = [(off[e.above] @ e.capacity) * (1 - off[e.below]) for e in self.edges]
        return np.sum([one.sum(1) for one in crossing], axis=0)


def _any(nodes: Nodes) -> np.ndarray:
    """Whether any node is marked, (batch,)."""
    return np.logical_or.reduce([one.any(1) for one in nodes.values()])


def _part(amount: np.ndarray, total: np.ndarray) -> np.ndarray:
    """amount / total, at most 1; 0 where the total is 0."""
    return np.divide(np.minimum(amount, total), total, out=np.zeros_like(total), where=total > 0)
