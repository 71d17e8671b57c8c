"""Residual capacities between two groups of nodes, for a step down the edges or back up them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# A column is picked out where fewer than one in so many are needed: below that, copying costs less.
FEW = 5


@dataclass(frozen=True)
class Edges:
    """All edges from one group of nodes to another one below it; 0 is no edge."""

    above: int
    below: int
    capacity: np.ndarray  # (nodes above, nodes below)


@dataclass(frozen=True)
class Residual:
    """What each edge can still carry down, for a batch of flows through the same edges.

    What it carries already can go back up. `left` is (batch x nodes above, nodes below), so that
    some rows of some flows are rows of one matrix.
    """

    edges: Edges
    left: np.ndarray

    @classmethod
    def of(cls, edges: Edges, batch: int) -> Residual:
        """That of edges which carry nothing yet."""
        return cls(edges, np.tile(edges.capacity, (batch, 1)))


class Step:
    """The part of a residual on the way from some nodes to some others, both (batch, nodes).

    `room` is a matrix; flows down it are of its shape. More nodes than asked for may be in it.
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
        self._flow = rows // above.shape[1]  # which flow of the batch each row belongs to
        self.room = self._left[self._index]
        if not down:
            self._capacity = residual.edges.capacity[own]
            self.room = self._capacity - self.room

    def at_start(self, nodes: np.ndarray) -> np.ndarray:
        """A number for each starting node, (batch, nodes), as it stands beside the room."""
        return self._by_row(nodes) if self.down else self._by_column(nodes)

    def at_end(self, nodes: np.ndarray) -> np.ndarray:
        """The same for each node that is reached."""
        return self._by_column(nodes) if self.down else self._by_row(nodes)

    def out_of(self, flow: np.ndarray) -> np.ndarray:
        """What leaves each starting node, (batch, nodes)."""
        return self._row_sums(flow) if self.down else self._column_sums(flow)

    def into(self, flow: np.ndarray) -> np.ndarray:
        """What comes into each node that is reached, (batch, nodes)."""
        return self._column_sums(flow) if self.down else self._row_sums(flow)

    def keep(self) -> None:
        """Writes the room that is now left back into the residual."""
        if not self.down:
            self._left[self._index] = self._capacity - self.room
        elif not isinstance(self._index, slice):  # of a whole matrix, the room is what is left
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
