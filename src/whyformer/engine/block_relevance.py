"""Relevance where token states enter each block, summed over features in the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
        self.by_stack: dict[str, list[Tensor | None]] = {}
        self._unread: dict[str, list[Tensor | None]] = {}  # before a backward pass: zeros

    def watch(self, stack: str, states: Tensor) -> None:
        """Compute the relevance of a block's input when its gradient arrives."""
        blocks = self.by_stack.setdefault(stack, [])
        block, value, version = len(blocks), states.detach(), states._version
        blocks.append(self._per_token(torch.zeros_like(value)))
        self._unread.setdefault(stack, []).append(blocks[block])

        def note(gradient: Tensor) -> None:
            intact = value._version == version
            blocks[block] = self._per_token(wide(value) * wide(gradient)) if intact else None

        if states.requires_grad:
            states.register_hook(note)

    def clear(self) -> None:
        """Forget what a backward pass brought, before another one runs."""
        for stack, blocks in self.by_stack.items():
            blocks[:] = self._unread[stack]

    def read(
        self, states: Mapping[str, Tensor], slopes: Sequence[Tensor]
    ) -> dict[str, tuple[Tensor | None, ...]]:
        """Return the relevance at each block's input, (batch, tokens) by stack.

        `states` are the lowest states of each stack, and `slopes` the gradient there. The first
        block may have got a copy of them, and other modules may read them too.
        """
        found = {}
        for (stack, lowest), slope in zip(states.items(), slopes, strict=True):
            relevance = self._per_token(wide(lowest.detach()) * wide(slope))
            found[stack] = (relevance, *self.by_stack.get(stack, [])[1:])
        return found

    def _per_token(self, relevance: Tensor) -> Tensor | None:
        """The sum over features, (batch, tokens)."""
        if not self._run.stacks.axes.fits(relevance, self._run.batch.size):
            return None
        return self._run.put_batch_first(wide(relevance)).sum(-1)
