"""Residual capacities between two groups of nodes, for steps down the edges or back up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# Columns are selected if fewer than one in FEW are needed; otherwise copying all is faster.
FEW = 5


@dataclass(frozen=True)
class Edges:
    """All edges from one group of nodes to one below it; capacity 0 means no edge."""

    above: int
    below: int
    capacity: np.ndarray  # (nodes above, nodes below)


@dataclass(frozen=True)
class Residual:
    """The remaining capacity of each edge, for a batch of flows through the same edges.

    Flow that an edge carries can go back up. `left` is (batch x nodes above, nodes below), so that
    rows of several flows are rows of one matrix.
    """

    edges: Edges
    left: np.ndarray

    @classmethod
    def of(cls, edges: Edges, batch: int) -> Residual:
        """The residual of edges without flow."""
        return cls(edges, np.tile(edges.capacity, (batch, 1)))


class Step:
    """The part of a residual from some nodes to some others, both (batch, nodes).

    `room` is the remaining capacity as a matrix; flows have its shape. It may hold more nodes than
    the selected ones.
    """

    def __init__(self, residual: Residual, down: bool, start: np.ndarray, end: np.ndarray) -> None:
        self.down, self._left = down, residual.left
        above, below = (start, end) if down else (end, start)
        self._above, self._below = above.shape, below.shape
        rows, columns = np.flatnonzero(above), np.flatnonzero(below.any(0))
        self._rows: Any = rows
        self._columns: Any = columns
        if 2 * len(rows) > above.size:
            rows, self._rows = np.arange(above.size), slice(None)
        if FEW * len(columns) > below.shape[1]:
            self._columns = slice(None)
            self._index: Any = self._rows
            own: Any = rows % above.shape[1] if len(above) > 1 else self._rows
        else:
            self._index = np.ix_(rows, columns)
            own = np.ix_(rows % above.shape[1], columns)
        self._flow = rows // above.shape[1]  # the flow of the batch that each row belongs to
        self.room = self._left[self._index]
        if not down:
            self._capacity = residual.edges.capacity[own]
            self.room = self._capacity - self.room

    def at_start(self, nodes: np.ndarray) -> np.ndarray:
        """Numbers of the starting nodes, (batch, nodes), in the shape of the room."""
        return self._by_row(nodes) if self.down else self._by_column(nodes)

    def at_end(self, nodes: np.ndarray) -> np.ndarray:
        """Numbers of the end nodes, (batch, nodes), in the shape of the room."""
        return self._by_column(nodes) if self.down else self._by_row(nodes)

    def out_of(self, flow: np.ndarray) -> np.ndarray:
        """The flow out of each starting node, (batch, nodes)."""
        return self._row_sums(flow) if self.down else self._column_sums(flow)

    def into(self, flow: np.ndarray) -> np.ndarray:
        """The flow into each end node, (batch, nodes)."""
        return self._column_sums(flow) if self.down else self._row_sums(flow)

    def keep(self) -> None:
        """Write the room back into the residual."""
        if not self.down:
            self._left[self._index] = self._capacity - self.room
        elif not isinstance(self._index, slice):  # the whole matrix is a view: nothing to write
            self._left[self._index] = self.room

    def _by_row(self, nodes: np.ndarray) -> np.ndarray:
        return nodes.reshape(-1)[self._rows][:, None]

    def _by_column(self, nodes: np.ndarray) -> np.ndarray:
        nodes = nodes[:, self._columns]
        return nodes if len(nodes) == 1 else nodes[self._flow]

    def _row_sums(self, flow: np.ndarray) -> np.ndarray:
        sums = np.zeros(self._above)
        sums.reshape(-1)[self._rows] = np.einsum("ij->i", flow)  # twice as fast as sum(1)
        return sums

    def _column_sums(self, flow: np.ndarray) -> np.ndarray:
        sums = np.zeros(self._below)
        if len(sums) == 1:
            sums[0, self._columns] = flow.sum(0)
        elif len(flow):
            first = np.flatnonzero(np.diff(self._flow, prepend=-1))
            columns = np.arange(self._below[1])[self._columns]
            sums[np.ix_(self._flow[first], columns)] = np.add.reduceat(flow, first)
        return sums
