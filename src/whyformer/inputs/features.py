"""Read streams of numbers that are no image: regions, frames of sound, waveforms, videos."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from whyformer.errors import InputError
from whyformer.inputs.batch import Batch
from whyformer.inputs.images import display_pixels
from whyformer.inputs.regions import RegionGrid
from whyformer.inputs.sequence import check_mask, contents, move_to_module
from whyformer.models.families import Source

# The axes of each kind, and which of them counts entries.
AXES = {
    "features": ("(batch, tokens, width)", 1),
    "frames": ("(batch, frames, width)", 1),
    "sound": ("(batch, width, frames)", 2),
    "waveform": ("(batch, samples)", 1),
    "video": ("(batch, frames, channels, height, width)", 1),
}


def feature_batch(
    source: Source,
    own: Mapping[str, Any],
    module: nn.Module,
    pictures: tuple[RegionGrid, Tensor] | None = None,
) -> Batch:
    """Return a stream of features as a batch: regions, frames of sound, a waveform or a video.

    `pictures` are the images that regions were cut from, if whyformer cut them.
    """
    value: Tensor = own[source.carrier]
    _check_shape(source, own, module)
    entries = value.shape[AXES[source.kind][1]]
    count = int(source.count_tokens(module, torch.tensor([entries]))[0])
    if count < 1:
        raise InputError(
            f"'{source.carrier}' of shape {tuple(value.shape)} is too short:"
            f" {type(module).__name__} makes no token of it",
            argument="inputs",
            remedy="Pass a longer input",
        )
    mask = _token_mask(own.get(source.mask or ""), source, module, value, entries, count)
    for name in source.beside:
        beside = own.get(name)
        if isinstance(beside, Tensor) and beside.shape[1] != count:
            raise InputError(
                f"'{name}' has shape {tuple(beside.shape)} and '{source.carrier}' has {count}"
                f" tokens in shape {tuple(value.shape)}",
                argument="inputs",
                remedy="Pass one entry per token",
            )
    if source.kind == "waveform" and bool(mask.all()):
        # A mask that hides nothing: many models write zeros in place where it hides something.
        own = {name: entry for name, entry in own.items() if name != source.mask}
    placed = move_to_module(own, module)
    grid = None
    if source.grid is not None:
        grid = source.grid(getattr(source.submodule(module), "config", None), tuple(value.shape))
    shown = None
    if pictures is not None:
        grid, shown = pictures[0].grid, pictures[1].expand(len(value), *pictures[1].shape[1:])
    return Batch(
        arguments=placed,
        baseline_arguments={**placed, source.carrier: torch.zeros_like(placed[source.carrier])},
        carrier=source.carrier,
        size=len(value),
        stream=source.stream,
        content=contents(value, _entry_mask(own.get(source.mask or ""), value)),
        mask=None if source.grid is not None else mask.to(placed[source.carrier].device),
        grid=grid,
        image=shown,
    )


def video_batch(arguments: Mapping[str, Any], carrier: str, module: nn.Module) -> Batch:
    """Return (batch, frames, channels, height, width) as a batch, for a model of no family.

    How its pixels are cut into tokens is seen when the model runs.
    """
    placed = move_to_module(arguments, module)
    video: Tensor = placed[carrier]
    return Batch(
        arguments=placed,
        baseline_arguments={**placed, carrier: torch.zeros_like(video)},
        carrier=carrier,
        size=len(video),
        stream="video",
        content=contents(video),
    )


def number_batch(
    source: Source, own: Mapping[str, Any], module: nn.Module, processor: Any | None
) -> Batch:
    """Return numbers of any shape as a batch; what ran has told how many tokens they give."""
    value: Tensor = own[source.carrier]
    placed = move_to_module(own, module)
    carried: Tensor = placed[source.carrier]
    is_picture = value.ndim == 4 and value.shape[1] in (1, 3)
    mask = torch.ones(len(value), source.tokens, dtype=torch.bool, device=carried.device)
    return Batch(
        arguments=placed,
        baseline_arguments={**placed, source.carrier: torch.zeros_like(carried)},
        carrier=source.carrier,
        size=len(value),
        stream=source.stream,
        content=contents(value),
        mask=None if source.grid is not None else mask,
        grid=None if source.grid is None else source.grid(None, tuple(value.shape)),
        image=display_pixels(value, processor) if is_picture else None,
    )


def _check_shape(source: Source, own: Mapping[str, Any], module: nn.Module) -> None:
    """Raise InputError if the model does not take this rank or these widths."""
    value: Tensor = own[source.carrier]
    axes, counted = AXES[source.kind]
    rank = axes.count(",") + 1
    if value.ndim != rank or not value.is_floating_point() or not value.numel():
        raise InputError(
            f"'{source.carrier}' is a tensor of {value.dtype} with shape {tuple(value.shape)};"
            f" expected floating numbers of rank {rank} {axes}",
            argument="inputs",
        )
    config = getattr(source.submodule(module), "config", None)
    for name, setting in source.widths.items():
        width, features = getattr(config, setting, None), own.get(name)
        if width is None or not isinstance(features, Tensor):
            continue
        found = features.shape[1 if counted == 2 else -1]
        if found != width:
            raise InputError(
                f"'{name}' has {found} numbers per token in shape {tuple(features.shape)}, the"
                f" model takes {width} (config.{setting})",
                argument="inputs",
                remedy=f"Pass {axes} with a width of {width}",
            )


def _entry_mask(mask: Any, value: Tensor) -> Tensor | None:
    """True at real entries, if the mask has one number for each entry of axis 1."""
    fits = isinstance(mask, Tensor) and mask.shape == value.shape[:2]
    return mask != 0 if fits else None


def _token_mask(
    mask: Any, source: Source, module: nn.Module, value: Tensor, entries: int, count: int
) -> Tensor:
    """True at real tokens, (batch, tokens)."""
    if not isinstance(mask, Tensor):
        return torch.ones(len(value), count, dtype=torch.bool)
    if mask.shape != (len(value), entries):
        raise InputError(
            f"'{source.mask}' has shape {tuple(mask.shape)} and '{source.carrier}' has {entries}"
            f" tokens in shape {tuple(value.shape)}",
            argument="inputs",
            remedy="Pass one mask entry per token",
        )
    real = mask != 0
    check_mask(real, source.mask or "attention_mask")
    if source.kind == "features":
        return real
    tokens = source.count_tokens(module, torch.arange(entries + 1))
    lengths = real.sum(1)
    if not torch.equal(real, torch.arange(entries, device=real.device) < lengths.unsqueeze(1)):
        raise InputError(
            f"'{source.mask}' is 0 before the end of a sample: {type(module).__name__} reads only"
            " padding at the end",
            argument="inputs",
            remedy="Pad every sample on the right",
        )
    counts = tokens.to(lengths.device)[lengths]
    if int(counts.min()) < 1:
        raise InputError(
            f"sample {int(counts.argmin())} is too short: {type(module).__name__} makes no token"
            f" of its {int(lengths.min())} entries",
            argument="inputs",
            remedy="Leave the sample out",
        )
    return torch.arange(count, device=counts.device) < counts.unsqueeze(1)
