"""Values that hooks multiply with a gradient later, safe from models that overwrite tensors."""

from __future__ import annotations

from typing import TypeVar
from weakref import ref

from torch import Tensor

Kind = TypeVar("Kind", bound="Watched")


class Watched:
    """A value that a hook needs; a copy takes its place if the model overwrites it."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Tensor) -> None:
        self.value = value


class WatchedValues:
    """The values that living hooks need."""

    def __init__(self) -> None:
        # Plain references, which are cheaper than a WeakSet: every bias of a model is watched.
        self._watched: list[ref[Watched]] = []

    def watch(self, value: Tensor) -> Watched:
        """The value, which `save` will copy in time."""
        return self.add(Watched(value.detach()))

    def add(self, watched: Kind) -> Kind:
        """The same object, whose value `save` will copy in time."""
        self._watched.append(ref(watched))
        return watched

    def save(self, target: Tensor) -> None:
        """Copy the values that share memory with a tensor that is about to be overwritten."""
        living = [one for watched in self._watched if (one := watched()) is not None]
        self._watched = [ref(one) for one in living]
        memory = target.untyped_storage().data_ptr() if living else 0
        for one in living:
            if one.value.untyped_storage().data_ptr() == memory:
                one.value = one.value.clone()
