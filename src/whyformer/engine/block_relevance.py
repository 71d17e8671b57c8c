"""Relevance where token states enter each block, summed over features in the backward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.run import Run


class BlockRelevance:
    """State x gradient at the input of every block, (batch, tokens) in the model's order of axes.

    Blocks are counted per stack, in the order they ran. None stands for a block that wrote into
    its input: the states that entered it are gone.
    """

    def __init__(self) -> None:
        self.by_stack: dict[str, list[Tensor | None]] = {}

    def watch(self, stack: str, states: Tensor) -> None:
        """Compute the relevance of a block's input when its gradient arrives."""
        blocks = self.by_stack.setdefault(stack, [])
        block, value, version = len(blocks), states.detach(), states._version
        blocks.append(torch.zeros(value.shape[:-1], dtype=wide(value).dtype, device=value.device))

        def note(gradient: Tensor) -> None:
            intact = value._version == version
            blocks[block] = (wide(value) * wide(gradient)).sum(-1) if intact else None

        if states.requires_grad:
            states.register_hook(note)

    def read(
        self, run: Run, states: Mapping[str, Tensor], slopes: Sequence[Tensor]
    ) -> dict[str, tuple[Tensor | None, ...]]:
        """Return the relevance at each block's input, (batch, tokens) by stack.

        `states` are the lowest states of each stack, and `slopes` the gradient there. The first
        block may have got a copy of them, and other modules may read them too.
        """
        found = {}
        for (stack, lowest), slope in zip(states.items(), slopes, strict=True):
            relevance = (wide(lowest.detach()) * wide(slope)).sum(-1)
            above = self.by_stack.get(stack, [])[1:]
            found[stack] = tuple(
                None if one is None else run.put_batch_first(one) for one in (relevance, *above)
            )
        return found
