"""What an attribution keeps of one layer."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Layer:
    """What was kept of one layer. Maps have the axes (batch, head, query, key).

    Attributes:
        attention: The attention map.
        gradient: The gradient of the target with respect to the attention map.
        relevance: The relevance of the attention map.
        relevance_sum: (batch,) sum of the relevance of the block's output.
        entering: (batch, tokens, hidden) relevance of the block's input.
        leaving: (batch, tokens, hidden) relevance of the last block's output.
        asking: The stream whose tokens are the queries.
        answering: The stream whose tokens are the keys.
        together: Whether this layer and the one before read the same hidden states.
    """

    attention: Tensor | None = None
    gradient: Tensor | None = None
    relevance: Tensor | None = None
    relevance_sum: Tensor | None = None
    entering: Tensor | None = None
    leaving: Tensor | None = None
    asking: str = ""
    answering: str = ""
    together: bool = False

    def read(self, *parts: str) -> tuple[Tensor, ...]:
        """Return the named fields, in order. The caller must know that they were kept."""
        return tuple(getattr(self, part) for part in parts)

    def sample(self, index: int) -> Layer:
        """Return the layer of one sample, with its padding."""
        one = slice(index, index + 1)
        parts = {field.name: getattr(self, field.name) for field in fields(self)}
        cut: dict[str, Any] = {k: t[one] for k, t in parts.items() if isinstance(t, Tensor)}
        return replace(self, **cut)
