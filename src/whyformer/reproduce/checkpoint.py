"""Checkpoints of a training: safetensors files that are written atomically."""

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

from whyformer.storage import StoreError, atomic_write

MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class Checkpoint:
    """The file that a training continues from; a file of another training is ignored."""

    path: Path
    training: Mapping[str, Any]  # everything that the trained weights depend on

    def store(
        self, parameters: Mapping[str, Tensor], optimiser: torch.optim.Optimizer, step: int
    ) -> None:
        """Write the weights and the moments of the optimiser; an older file is replaced."""
        tensors = {
            f"weight/{name}": p.detach().contiguous().clone() for name, p in parameters.items()
        }
        for name, parameter in parameters.items():
            for moment in MOMENTS:
                if moment in optimiser.state[parameter]:
                    tensors[f"{moment}/{name}"] = optimiser.state[parameter][moment]
        about = {"step": str(step), "training": self._name()}
        write_file(self.path, lambda to: save_file(tensors, str(to), metadata=about))

    def restore(self, parameters: Mapping[str, Tensor], optimiser: torch.optim.Optimizer) -> int:
        """Load the checkpoint into weights and optimiser; return its step, 0 if there is none."""
        try:
            with safe_open(str(self.path), framework="pt") as file:
                about = file.metadata() or {}
            if about.get("training") != self._name():
                return 0
            tensors = load_file(str(self.path))
        except (FileNotFoundError, SafetensorError):  # no file, or an incomplete one
            return 0
        step = int(about["step"])
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(tensors[f"weight/{name}"])
                moments = {m: tensors[f"{m}/{name}"] for m in MOMENTS if f"{m}/{name}" in tensors}
                if moments:
                    optimiser.state[parameter] = {"step": torch.tensor(float(step)), **moments}
        return step

    def remove(self) -> None:
        """Delete the file, if there is one."""
        self.path.unlink(missing_ok=True)

    def _name(self) -> str:
        return json.dumps(self.training, sort_keys=True)


def write_file(path: Path, write: Callable[[Path], Any]) -> None:
    """Write a temporary file and move it to `path`, so that a file is never incomplete."""
    with report_write_errors(path):
        atomic_write.write_atomically(path, write)


@contextmanager
def report_write_errors(path: Path) -> Iterator[None]:
    """Raise StoreError if a file cannot be written in this scope."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise StoreError(
            f"{str(path)!r} cannot be written: {why}",
            argument="out",
            remedy="Free some space or pass another folder, and run the same command again",
        ) from error
