"""How far a training has come, on disk: safetensors, whole or not there, of one training only."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from whyformer.evaluation import atomic_write
from whyformer.evaluation.store import StoreError

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoint:
    """The file that a training goes on from; one of another training counts for nothing."""

    path: Path
    training: Mapping[str, Any]  # all that decides which weights come out

    def store(
        self, named: Mapping[str, Tensor], optimiser: torch.optim.Optimizer, step: int
    ) -> None:
        """Puts weights and moments on the disk, in the place of those before."""
        tensors = {f"weight/{name}": p.detach().contiguous().clone() for name, p in named.items()}
        for name, parameter in named.items():
            for moment in MOMENTS:
                if moment in optimiser.state[parameter]:
                    tensors[f"{moment}/{name}"] = optimiser.state[parameter][moment]
        about = {"step": str(step), "training": self._name()}
        write_file(self.path, lambda to: save_file(tensors, str(to), metadata=about))

    def restore(self, named: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> int:
        """The step to go on from, all as it was then; 0 where there is nothing to go on from."""
        try:
            with safe_open(str(self.path), framework="pt") as file:
                about = file.metadata() or {}
            if about.get("training") != self._name():
                return 0
            tensors = load_file(str(self.path))
        except (FileNotFoundError, SafetensorError):  # none, or cut short by a full disk
            return 0
        step = int(about["step"])
        with torch.no_grad():
            for name, parameter in named.items():
                parameter.copy_(tensors[f"weight/{name}"])
                moments = {m: tensors[f"{m}/{name}"] for m in MOMENTS if f"{m}/{name}" in tensors}
                if moments:
                    optimiser.state[parameter] = {"step": torch.tensor(float(step)), **moments}
        return step

    def remove(self) -> None:
        """Nothing is left of it."""
        self.path.unlink(missing_ok=True)

    def _name(self) -> str:
        return json.dumps(self.training, sort_keys=True)


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Writes beside the file, down to the disk, and then takes its place."""
    with report_write_errors(path):
        atomic_write.write_atomically(path, write)


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """A scope in which a full disk or a closed folder is told in a sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StoreError(
            f"{str(path)!r} cannot be written: {why}. Make room or name another folder, and give"
            " the same command again to go on"
        ) from error
