"""How much goes into one pass where nobody says."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from whyformer.models.signature import device_and_dtype


@dataclass(frozen=True)
class Budget:
    """The most of each that one pass takes."""

    samples: int
    tokens: int  # padding included
    images: int


# On a CPU larger batches only leave the caches; an accelerator wants to be filled.
CPU = Budget(samples=32, tokens=1024, images=8)
ACCELERATOR = Budget(samples=64, tokens=8192, images=32)


def is_on_cpu(module: nn.Module) -> bool:
    """Whether the module computes on the processor."""
    return device_and_dtype(module)[0].type == "cpu"


def budget_of(module: nn.Module) -> Budget:
    """What suits the device that the module is on."""
    return CPU if is_on_cpu(module) else ACCELERATOR
