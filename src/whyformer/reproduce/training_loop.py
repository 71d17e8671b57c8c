"""The training loop: AdamW, a learning rate that rises and falls, one step at a time.

`whyformer reproduce` and the scripts in `training/`, which made the bundled models, use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

CLIP = 1.0  # largest norm of the gradient

LabelledBatch = tuple[dict[str, Tensor], Tensor]  # arguments of forward, and one label per sample


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step.

    Args:
        steps: How many steps there are.
        peak: The highest learning rate.
        rise: Over how many steps it rises to the peak.
        shape: How it falls to zero afterwards, "linear" or "cosine".
    """

    steps: int
    peak: float
    rise: int
    shape: str = "linear"

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rise = max(1, self.rise)
        if step < rise:
            return self.peak * ((step + 1) / rise)
        fall = max(1, self.steps - rise)
        if self.shape == "linear":
            return self.peak * ((self.steps - step) / fall)
        return self.peak * (0.5 * (1 + math.cos(math.pi * ((step - rise) / fall))))


@dataclass(frozen=True)
class TrainingStep:
    """One finished step."""

    number: int  # 1 for the first
    loss: float


def build_optimiser(
    model: nn.Module, peak: float, decay: float = 0.01, *, fused: bool = False
) -> torch.optim.AdamW:
    """Return AdamW with weight decay on matrices only, not on biases and norms."""
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return torch.optim.AdamW(
        [
            {"params": [p for p in parameters if p.ndim > 1], "weight_decay": decay},
            {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
        ],
        lr=peak,
        fused=fused,
    )


def classification_loss(model: nn.Module, batch: LabelledBatch, smoothing: float = 0.0) -> Tensor:
    """Return the cross-entropy of a classifier's logits."""
    inputs, labels = batch
    return functional.cross_entropy(model(**inputs).logits, labels, label_smoothing=smoothing)


def train_steps(
    model: nn.Module,
    batches: Iterable[LabelledBatch],
    loss_of: Callable[[LabelledBatch], Tensor],
    optimiser: torch.optim.Optimizer,
    schedule: Schedule,
    *,
    first: int = 0,
) -> Iterator[TrainingStep]:
    """Train the model in place, one batch per step; yield after every step.

    Args:
        model: The model, or a module around it, whose parameters the optimiser has.
        batches: One batch per step. A batch is read right before its step.
        loss_of: Returns the loss of a batch.
        optimiser: From `build_optimiser`, or restored from a checkpoint.
        schedule: The learning rates.
        first: How many steps were done before; their batches are not among `batches`.
    """
    model.train()
    for step, batch in enumerate(batches, first):
        for group in optimiser.param_groups:
            group["lr"] = schedule.rate(step)
        loss = loss_of(batch)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimiser.step()
        optimiser.zero_grad()
        yield TrainingStep(step + 1, loss.item())
