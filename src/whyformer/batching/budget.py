"""Token budget per forward pass, by device."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from whyformer.models.signature import device_and_dtype

# What a pass costs beyond its tokens, counted in tokens: reading every weight once, and the work
# that is the same for models of any size (in tokens x weights).
WEIGHT_READING = 16
PASS_OVERHEAD = 3e8


@dataclass(frozen=True)
class Budget:
    """The most of each that one pass takes."""

    samples: int
    tokens: int  # padding included
    images: int


# On a CPU, larger batches only fall out of the caches; an accelerator should be filled.
CPU = Budget(samples=32, tokens=1024, images=8)
ACCELERATOR = Budget(samples=64, tokens=8192, images=32)


def is_on_cpu(module: nn.Module) -> bool:
    """Return whether the module computes on the CPU."""
    return device_and_dtype(module)[0].type == "cpu"


def token_budget(module: nn.Module) -> Budget:
    """Return the budget for the device that the module is on."""
    return CPU if is_on_cpu(module) else ACCELERATOR


def pass_cost(module: nn.Module) -> float:
    """Return what one pass costs beyond its tokens, counted in tokens."""
    return WEIGHT_READING + PASS_OVERHEAD / max(1, _weights_per_token(module))


def _weights_per_token(module: nn.Module) -> int:
    """How many weights multiply each token: all matrices except embedding tables."""
    return sum(
        weight.numel()
        for part in module.modules()
        if not isinstance(part, nn.Embedding)
        for weight in part.parameters(recurse=False)
        if weight.ndim > 1
    )
