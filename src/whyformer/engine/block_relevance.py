"""Relevance where token states enter each block, summed over features in the backward pass."""

from __future__ import annotations

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide


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
