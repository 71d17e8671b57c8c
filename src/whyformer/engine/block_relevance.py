"""Relevance where token states enter each block, summed over features in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run


class BlockRelevance:
    """State x gradient at the input of every block, (batch, tokens).

    Blocks are counted per stack, in the order they ran. None stands for a block that wrote into
    its input, so that the states that entered it are gone, and for states of another layout.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._zeros: dict[str, list[Callable[[], Tensor]]] = {}  # like the states, by stack
        self._arrived: dict[tuple[str, int], Tensor | None] = {}  # in the last backward pass

    def watch(self, stack: str, states: Tensor) -> None:
        """Compute the relevance of a block's input when its gradient arrives."""
        blocks = self._zeros.setdefault(stack, [])
        place, value, version = (stack, len(blocks)), states.detach(), states._version
        # Not the states themselves, which would outlive the graph.
        blocks.append(partial(torch.zeros, value.shape, dtype=value.dtype, device=value.device))

        def note(gradient: Tensor) -> None:
            intact = value._version == version
            found = self._per_token(wide(value) * wide(gradient)) if intact else None
            self._arrived[place] = found

        if states.requires_grad:
            states.register_hook(note)

    def clear(self) -> None:
        """Forget what a backward pass brought, before another one runs."""
        self._arrived.clear()

    def read(
        self, states: Mapping[str, Tensor], slopes: Sequence[Tensor]
    ) -> dict[str, tuple[Tensor | None, ...]]:
        """Return the relevance at each block's input, (batch, tokens) by stack.

        `states` are the lowest states of each stack, and `slopes` the gradient there. The first
        block may have got a copy of them, and other modules may read them too. Where no gradient
        arrived, relevance is 0.
        """
        found = {}
        for (stack, lowest), slope in zip(states.items(), slopes, strict=True):
            relevance = self._per_token(wide(lowest.detach()) * wide(slope))
            above = range(1, len(self._zeros.get(stack, ())))
            found[stack] = (relevance, *(self._at(stack, block) for block in above))
        return found

    def _at(self, stack: str, block: int) -> Tensor | None:
        """The relevance that arrived at a block."""
        if (stack, block) in self._arrived:
            return self._arrived[stack, block]
        return self._per_token(self._zeros[stack][block]())

    def _per_token(self, relevance: Tensor) -> Tensor | None:
        """The sum over features, (batch, tokens)."""
        if not self._run.stacks.axes.fits(relevance, self._run.batch.size):
            return None
        return self._run.put_batch_first(wide(relevance)).sum(-1)
