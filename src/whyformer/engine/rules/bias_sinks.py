"""Relevance of biases: a model has many of them, so little happens for each."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

import torch
from torch import Tensor

from whyformer.engine.rules.operations.stabilise import wide
from whyformer.engine.rules.watched_values import Watched

Booking = TypeVar("Booking", bound=Hashable)


class BiasNote(Watched):
    """Books a bias when it is called with the gradient of a tensor that the bias was added to."""

    __slots__ = ("arrived",)

    def __init__(self, bias: Tensor, arrived: list[Tensor]) -> None:
        super().__init__(bias)
        self.arrived = arrived

    def __call__(self, gradient: Tensor) -> None:
        """Book bias * gradient for each token."""
        self.arrived.append(wide(gradient) @ self.value)


class BiasSinks(Generic[Booking]):
    """Relevance of biases that has arrived in a backward pass, (..., token), by booking."""

    def __init__(self) -> None:
        self._arrived: dict[Booking, list[Tensor]] = {}

    def note(self, booking: Booking, bias: Tensor) -> BiasNote:
        """Return what to call with the gradient of the tensor that the bias is a part of."""
        return BiasNote(bias, self._arrived.setdefault(booking, []))

    def take(self) -> Iterator[tuple[Booking, Tensor]]:
        """Yield what has arrived for each booking, (..., token, biases), and forget it."""
        for booking, parts in self._arrived.items():
            alike: dict[torch.Size, list[Tensor]] = {}
            for part in parts:
                alike.setdefault(part.shape, []).append(part)
            parts.clear()
            for own in alike.values():
                yield booking, torch.stack(own, dim=-1)

    def clear(self) -> None:
        """Forget what has arrived; the notes stay in use."""
        for parts in self._arrived.values():
            parts.clear()
