"""Weights stored in 8 bits per row, and widened when they are read.

The file `model.int8.safetensors` stores a tensor with two or more axes as int8 codes of the same
shape, plus `NAME.scale`, float32, one number per row (entry of the first axis):
`weight[row] = codes[row] * scale[row]`. Other tensors are stored as float16. The file has a name
of its own, because a reader that ignores the scales would load wrong weights.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from whyformer.errors import ModelError

PACKED = "model.int8.safetensors"
SCALE = ".scale"
LEVELS = 127
# Shares of a row's largest |weight| that may be its largest code. Clipping a rare outlier rounds
# all other weights of the row less.
SHARES = tuple(1 - step / 40 for step in range(20))


def pack_row_codes(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 codes in the weight's shape and scales (rows,), by least squared error."""
    rows = weight.detach().float().flatten(1)
    widest = rows.abs().amax(1, keepdim=True) / LEVELS
    widest = widest.where(widest > 0, 1.0)
    codes, scale = torch.zeros_like(rows), widest
    least = torch.full_like(widest, torch.inf)
    for share in SHARES:
        tried_scale = widest * share
        tried = (rows / tried_scale).round().clamp(-LEVELS, LEVELS)
        error = (tried * tried_scale - rows).square().sum(1, keepdim=True)
        better = error < least
        least = torch.where(better, error, least)
        scale = torch.where(better, tried_scale, scale)
        codes = torch.where(better, tried, codes)
    return codes.to(torch.int8).reshape(weight.shape), scale.flatten()


def write_packed(weights: Mapping[str, Tensor], path: Path) -> None:
    """Write a state dict to a file in the layout of this module."""
    stored: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if weight.ndim < 2:
            stored[name] = weight.detach().half().clone()
        else:
            stored[name], stored[name + SCALE] = pack_row_codes(weight)
    save_file(stored, path, metadata={"format": "pt", "layout": "int8 rows with scales"})
    path.chmod(0o644)  # safetensors files are readable by their owner only


def read_packed(path: Path) -> dict[str, Tensor]:
    """Return the state dict in a file that `write_packed` wrote, widened to float32."""
    try:
        stored = load_file(path)
    except (OSError, SafetensorError) as error:
        raise _damaged(path, str(error)) from error
    weights = {}
    for name, tensor in stored.items():
        if tensor.dtype == torch.int8:
            scale = stored.get(name + SCALE)
            if scale is None or scale.shape != tensor.shape[:1] or not scale.isfinite().all():
                raise _damaged(path, f"{name!r} has no scale for each row")
            weights[name] = tensor.float() * scale.float().view(-1, *[1] * (tensor.ndim - 1))
        elif not name.endswith(SCALE):
            weights[name] = tensor.float()
    return weights


def _damaged(path: Path, reason: str) -> ModelError:
    return ModelError(
        f"the weights {path} cannot be read: {reason}",
        argument="model",
        remedy="Copy the file again, or install whyformer again if the model is a bundled one",
    )
