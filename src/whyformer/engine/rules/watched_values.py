"""Values that hooks multiply with a gradient later, safe from models that overwrite tensors."""

from __future__ import annotations

from weakref import WeakSet

from torch import Tensor


class Watched:
    """A value that a hook needs; a copy takes its place if the model overwrites it."""

    def __init__(self, value: Tensor) -> None:
        self.value = value


class WatchedValues:
    """The values that living hooks need."""

    def __init__(self) -> None:
        self._living: WeakSet[Watched] = WeakSet()

    def watch(self, value: Tensor) -> Watched:
        """The value, which `save` will copy in time."""
        watched = Watched(value.detach())
        self._living.add(watched)
        return watched

    def save(self, target: Tensor) -> None:
        """Copy the values that share memory with a tensor that is about to be overwritten."""
        memory = target.untyped_storage().data_ptr() if len(self._living) else 0
        for watched in self._living:
            if watched.value.untyped_storage().data_ptr() == memory:
                watched.value = watched.value.clone()
