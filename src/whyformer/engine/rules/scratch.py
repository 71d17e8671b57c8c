"""Memory for what a formula needs for a moment: fresh memory costs more than the numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

# room(purpose, shape, like) -> memory of this shape, of the type and on the device of `like`
Room = Callable[[str, Sequence[int], Tensor], Tensor]


def fresh(purpose: str, shape: Sequence[int], like: Tensor) -> Tensor:
    """New memory."""
    return torch.empty(shape, dtype=like.dtype, device=like.device)


class Scratch:
    """One explanation's memory: the same again for the same purpose and size."""

    def __init__(self) -> None:
        self._held: dict[tuple, Tensor] = {}

    def room(self, purpose: str, shape: Sequence[int], like: Tensor) -> Tensor:
        """What was there before for this purpose is overwritten."""
        key = (purpose, *shape, like.dtype, like.device)
        held = self._held.get(key)
        if held is None:
            held = self._held[key] = fresh(purpose, shape, like)
        return held
