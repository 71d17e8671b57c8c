"""Which of some leaves a tensor was computed from, read off the autograd graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import Tensor


class LeafFinder:
    """Finds which leaves a tensor depends on; each node of the graph is visited once."""

    def __init__(self) -> None:
        self._bits: dict[int, int] = {}
        self._leaves: list[Tensor] = []
        self._known: dict[Any, int] = {}

    def add(self, leaf: Tensor) -> None:
        """Add a leaf; leaves are numbered in this order."""
        self._bits[id(leaf)] = 1 << len(self._leaves)
        self._leaves.append(leaf)  # keeps its id from being used again

    def below(self, tensor: Tensor) -> int:
        """Return the leaves that a tensor depends on: bit i is set for leaf i."""
        if tensor.grad_fn is None:
            return self._bits.get(id(tensor), 0)
        known, waiting = self._known, [tensor.grad_fn]
        while waiting:
            node = waiting[-1]
            if node in known:
                waiting.pop()
                continue
            inputs = [one for one, _ in node.next_functions if one is not None]
            missing = [one for one in inputs if one not in known]
            if missing:
                waiting += missing
                continue
            bits = self._bits.get(id(getattr(node, "variable", None)), 0)
            for one in inputs:
                bits |= known[one]
            known[node] = bits
            waiting.pop()
        return known[tensor.grad_fn]


def leaves_below(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Return all leaves that some tensors depend on; a leaf depends on itself."""
    found: dict[int, Tensor] = {}
    waiting: list[Any] = []
    for tensor in tensors:
        if tensor.grad_fn is not None:
            waiting.append(tensor.grad_fn)
        elif tensor.requires_grad:
            found[id(tensor)] = tensor
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        new = {one for one, _ in node.next_functions if one is not None} - seen
        seen |= new
        waiting += new
    return [*found.values()]
