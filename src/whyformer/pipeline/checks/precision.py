"""Is the model's precision high enough for this method? On request: it costs an explanation.

The same explanation is computed again by a copy of the model in float64, and the ranks of the
scores are compared. Where memory or the model does not allow that, the inputs are changed by one
rounding step instead: scores that this reorders are noise.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.attribution import Attribution, Reason, Trust
from whyformer.attribution.conservation import percent
from whyformer.attribution.trust import merge_trust
from whyformer.engine.scope import add_hooks
from whyformer.inputs.batch import Batch
from whyformer.models.load import Loaded
from whyformer.statistics.ranks import spearman

FLOAT64 = "in float64"
ROUNDED = "after a change of the input by one rounding step"
RANKS = 0.99  # the rank correlation below which the precision is too low
EQUAL = 1e-3  # scores that differ by less than this share of the largest one are equal
_UNKNOWN_MEMORY = 4e9  # bytes to count on where the system does not tell


def is_wide(module: nn.Module) -> bool:
    """Return whether all weights are in float64 already."""
    weights = [p for p in module.parameters() if p.is_floating_point()]
    return bool(weights) and all(weight.dtype == torch.float64 for weight in weights)


def copy_in_float64(loaded: Loaded, batch: Batch) -> tuple[Loaded, Batch] | None:
    """Return the model and the inputs in float64, or None if they cannot be copied."""
    needed = 16 * sum(tensor.numel() for tensor in loaded.module.parameters())
    if needed > _free_memory(next(loaded.module.parameters(), None)):
        return None
    try:
        module = copy.deepcopy(loaded.module).double()
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError):
        return None  # quantised, sharded or hooked modules
    return replace(loaded, module=module), _map_floats(batch, torch.Tensor.double)


@contextmanager
def rounding_noise(module: nn.Module, batch: Batch) -> Iterator[Batch]:
    """Change embeddings and floating inputs by one rounding step; yield the changed batch."""
    generator = torch.Generator().manual_seed(0)

    def shake(tensor: Tensor) -> Tensor:
        signs = torch.randint(0, 2, tensor.shape, generator=generator).to(tensor.device) * 2 - 1
        return tensor * (1 + signs.to(tensor.dtype) * torch.finfo(tensor.dtype).eps)

    def after(owner: Any, args: tuple, output: Tensor) -> Tensor:
        return shake(output)

    tables = [part for part in module.modules() if isinstance(part, nn.Embedding)]
    with add_hooks([(table, "after", after) for table in tables]):
        yield _map_floats(batch, shake)


def precision_reasons(attribution: Attribution, twin: Attribution, how: str) -> tuple[Reason, ...]:
    """Return how the ranks of the scores agree with those of `twin`, which was computed `how`."""
    if attribution.labels != twin.labels or attribution.scores.shape != twin.scores.shape:
        text = f"The precision is too low: {how}, the model predicts something else."
        return (Reason("precision", "warning", text),)
    ours, theirs, mask = (_all_streams(attribution), _all_streams(twin), _all_masks(attribution))
    agreement = spearman(ours, theirs, mask).tolist()
    largest = theirs.abs().amax(1).clamp(min=1e-30)
    apart = ((ours - theirs).abs().amax(1) / largest).tolist()
    parts = []
    for sample, (correlation, difference) in enumerate(zip(agreement, apart, strict=True)):
        measured = f"rank correlation {correlation:.2f}"
        if correlation >= RANKS or difference <= EQUAL:
            text = f"The precision is high enough: {how}, scores rank alike ({measured})."
            reason = Reason("precision", "ok", text, share=1 - correlation)
        else:
            text = f"The precision is too low for this method: {how}, scores rank differently"
            text += f" ({measured}, differences up to {percent(difference)}). Use float64."
            reason = Reason("precision", "warning", text, share=1 - correlation)
        parts.append((Trust((reason,)), (sample,)))
    return merge_trust(parts).reasons


def _all_streams(attribution: Attribution) -> Tensor:
    return torch.cat([one.scores.double() for one in attribution.streams.values()], dim=1)


def _all_masks(attribution: Attribution) -> Tensor:
    return torch.cat([one.mask.bool() for one in attribution.streams.values()], dim=1)


def _map_floats(batch: Batch, change: Any) -> Batch:
    """The batch with `change` applied to its floating arguments."""

    def changed(arguments: Any) -> dict[str, Any]:
        return {
            name: change(value)
            if isinstance(value, Tensor) and value.is_floating_point()
            else value
            for name, value in arguments.items()
        }

    return replace(
        batch,
        arguments=changed(batch.arguments),
        baseline_arguments=changed(batch.baseline_arguments),
        others={name: _map_floats(other, change) for name, other in batch.others.items()},
    )


def _free_memory(weight: Tensor | None) -> float:
    """The bytes that are free where the weights are."""
    if weight is not None and weight.is_cuda:
        return float(torch.cuda.mem_get_info(weight.device)[0])
    try:
        return float(os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (ValueError, OSError, AttributeError):
        return _UNKNOWN_MEMORY
