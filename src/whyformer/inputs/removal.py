"""Tokens taken away from what the model reads, and what fills the gap."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.errors import InputError, OptionError
from whyformer.inputs.baseline import silent_id
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding import padding_id
from whyformer.inputs.padding_layout import OTHER_STREAMS
from whyformer.models.families import Family, Source
from whyformer.models.signature import forward_of, vocabulary_of

# What each kind of stream can be filled with; the first is the default.
FILLS = {
    "ids": ("drop", "mask", "unknown", "zero", "mean"),
    "features": ("drop", "zero", "mean"),
    "pixels": ("zero", "black", "mean", "blur"),
    "sound": ("zero", "mean"),
}
FILL_TEXTS = {
    "drop": "taken out, what is left closes up; where nothing is left, one silent token",
    "mask": "replaced by the mask token",
    "unknown": "replaced by the unknown token",
    "zero": "set to zero (pixels: after normalisation; tokens: their word embeddings)",
    "black": "set to black before normalisation",
    "mean": "set to the mean (pixels: of the image; features: of the sample; tokens: of the word"
    " embeddings)",
    "blur": "blurred by a Gaussian of a twentieth of the image's longer side",
}


@dataclass(frozen=True)
class Remainder:
    """What is left of some samples: arguments of forward, and word embeddings to overwrite."""

    batch: Batch
    silenced: Tensor | None = None  # (batch, tokens), True where the embedding is overwritten


@dataclass(frozen=True)
class Removal:
    """How one batch loses tokens; `fill` is a name of `FILLS`, None for each stream's default."""

    batch: Batch
    module: nn.Module
    family: Family | None = None
    fill: str | None = None
    image_processor: Any = (
        None  # the image processor, which knows what black is after normalisation
    )

    def source(self, stream: str) -> Source:
        """The arguments that bring the stream's tokens."""
        found = self.batch.of(stream)
        if found is None:
            raise InputError(
                f"the tokens of stream '{stream}' are not in the inputs, so that none can be taken"
                f" away; there is {', '.join(one.stream for one in self.batch)}"
            )
        for source in self.family.sources if self.family else ():
            if source.stream == stream:
                return source
        value = self.batch.arguments[found.carrier]
        numbers = "features" if value.is_floating_point() else "ids"
        kind = "pixels" if value.is_floating_point() and value.ndim == 4 else numbers
        return Source(stream, found.carrier, kind)

    def fill_of(self, stream: str) -> str:
        """What the stream's gaps are filled with."""
        kind = self.source(stream).kind
        if self.fill is None:
            return FILLS[kind][0]
        if self.fill not in FILL_TEXTS:
            raise OptionError(f"fill={self.fill!r}: choose one of {', '.join(FILL_TEXTS)}")
        if self.fill not in FILLS[kind]:
            raise OptionError(
                f"fill={self.fill!r} is not for stream '{stream}', which is {kind}: choose one of"
                f" {', '.join(FILLS[kind])}"
            )
        return self.fill

    def remove(
        self, stream: str, kept: Tensor, rows: Tensor, grid: tuple[int, int] | None = None
    ) -> Remainder:
        """Those rows of the batch with only the kept tokens, (rows, tokens), of one stream."""
        source, fill = self.source(stream), self.fill_of(stream)
        some = self.batch.take(rows)
        read = some.of(stream)
        if read is not None and read.layout is not None:
            kept = read.layout.to_model(kept)
        value: Tensor = some.arguments[source.carrier]
        kept = kept.to(value.device)
        real = torch.ones_like(kept)  # padding is no token: it is neither kept nor filled
        if read is not None and read.mask is not None and read.mask.shape[1] == kept.shape[1]:
            real = read.mask.to(value.device)
        if source.kind == "pixels":
            filled = self._pixel_fill(value, fill)
            inside = _kept_pixels(value, kept, grid)
            return Remainder(_with(some, {source.carrier: value.where(inside, filled)}))
        if source.kind == "sound":
            frames = kept.repeat_interleave(source.stride, 1)[:, : value.shape[2]].unsqueeze(1)
            filled = value.mean(2, keepdim=True) if fill == "mean" else value.new_zeros(())
            return Remainder(_with(some, {source.carrier: value.where(frames, filled)}))
        if fill == "drop":
            return Remainder(self._drop(some, source, kept, real))
        gone = real & ~kept
        if source.kind == "features":
            filled = _mean(value, real) if fill == "mean" else value.new_zeros(())
            return Remainder(_with(some, {source.carrier: value.where(~gone.unsqueeze(2), filled)}))
        if fill in ("zero", "mean"):
            return Remainder(some, gone)
        return Remainder(
            _with(some, {source.carrier: value.where(~gone, self._token_fill(fill, source))})
        )

    def _pixel_fill(self, value: Tensor, fill: str) -> Tensor:
        """What an image has where pixels are gone; it fits the pixel values."""
        if fill == "mean":
            return value.mean((2, 3), keepdim=True)
        if fill == "blur":
            return _blur(value)
        if fill == "zero":
            return value.new_zeros(())
        if self.image_processor is None:
            raise OptionError(
                "fill='black': how the pixels were normalised is not known; pass the model's image"
                " processor, or fill with 'zero', 'mean' or 'blur'"
            )
        if getattr(self.image_processor, "do_normalize", True) is False:
            return value.new_zeros(())
        moments = (self.image_processor.image_mean, self.image_processor.image_std)
        mean, deviation = (torch.as_tensor(m).reshape(1, -1, 1, 1).to(value) for m in moments)
        return -mean / deviation

    def _token_fill(self, fill: str, source: Source) -> int:
        """The id that stands in for a token that is gone."""
        tokenizer = self.batch.tokenizer
        role = {"mask": "mask", "unknown": "unk"}[fill]
        found = getattr(tokenizer, f"{role}_token_id", None)
        size = vocabulary_of(source.submodule(self.module))
        if not isinstance(found, int) or (size is not None and found >= size):
            raise OptionError(
                f"fill={fill!r}: the tokenizer of {type(self.module).__name__} has no {fill} token;"
                f" choose one of {', '.join(f for f in FILLS['ids'] if f != fill)}"
            )
        return found

    def _drop(self, some: Batch, source: Source, kept: Tensor, there: Tensor) -> Batch:
        """The samples closed up, padding behind."""
        value: Tensor = some.arguments[source.carrier]
        empty = ~kept.any(1)
        stay = kept.clone()
        stay[empty, there.int().argmax(1)[empty]] = True
        index = (~stay).int().argsort(dim=1, stable=True)[:, : int(stay.sum(1).max())]
        real = stay.gather(1, index)
        mask = source.mask or forward_of(self.module).padding_mask or "attention_mask"
        changed: dict[str, Any] = {}
        for name in self._token_arguments(some, source, mask):
            entry: Tensor = some.arguments[name]
            wide = index.reshape(*index.shape, *[1] * (entry.ndim - 2))
            changed[name] = entry.gather(1, wide.expand(*index.shape, *entry.shape[2:]))
        if "position_ids" in changed:  # what is left closes up: places stay, tokens move
            changed["position_ids"] = some.arguments["position_ids"][:, : index.shape[1]]
        if mask in changed and mask.endswith("key_padding_mask"):  # torch's own: set at padding
            at_padding = True if changed[mask].dtype == torch.bool else -torch.inf
            changed[mask] = torch.zeros_like(changed[mask]).masked_fill(~real, at_padding)
        elif mask in changed:
            changed[mask] = changed[mask] * real
        elif not bool(real.all()):
            raise InputError(
                f"{type(self.module).__name__} was given no mask, so that samples of different"
                " lengths cannot run together"
            )
        if value.is_floating_point():
            changed[source.carrier][empty] = 0
        else:
            part = source.submodule(self.module)
            tokenizer = self.batch.tokenizer
            ids = changed[source.carrier].masked_fill(~real, padding_id(part, tokenizer))
            ids[empty, 0] = silent_id(part, tokenizer)
            changed[source.carrier] = ids
        return _with(some, changed)

    def _token_arguments(self, some: Batch, source: Source, mask: str) -> list[str]:
        """The arguments that have one entry per token of the stream."""
        shape = some.arguments[source.carrier].shape[:2]
        if self.family is not None and self.family.sources:
            names = (source.carrier, *source.beside, mask)
        else:
            names = tuple(name for name in some.arguments if not name.startswith(OTHER_STREAMS))
        return [
            name
            for name in names
            if isinstance(entry := some.arguments.get(name), Tensor) and entry.shape[:2] == shape
        ]

    def runs_together(self, stream: str) -> bool:
        """Whether samples that keep different numbers of tokens can be in one batch."""
        source = self.source(stream)
        if self.fill_of(stream) != "drop":
            return True
        mask = source.mask or forward_of(self.module).padding_mask or "attention_mask"
        return isinstance(self.batch.arguments.get(mask), Tensor) and source.padding


def _with(prepared: Batch, changed: Mapping[str, Any]) -> Batch:
    return replace(prepared, arguments={**prepared.arguments, **changed})


def _mean(value: Tensor, real: Tensor) -> Tensor:
    """The mean of each sample's tokens, padding left out, (batch, 1, width)."""
    weights = real.unsqueeze(2).to(value.dtype)
    return (value * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)


def _kept_pixels(value: Tensor, kept: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """Which pixels are kept, (batch, 1, height, width), from pixels or from patches."""
    size = value.shape[-2:]
    if kept.shape[1] == size[0] * size[1]:
        return kept.unflatten(1, size).unsqueeze(1)
    if grid is not None and kept.shape[1] == grid[0] * grid[1]:
        return F.interpolate(kept.unflatten(1, grid).float().unsqueeze(1), size) > 0
    raise InputError(
        f"{kept.shape[1]} patches or pixels were named of an image of {size[0]} x {size[1]}"
    )


def _blur(value: Tensor) -> Tensor:
    """The image under a Gaussian of a twentieth of its longer side, its edges continued."""
    sigma = max(value.shape[-2:]) / 20
    reach = round(3 * sigma)
    line = torch.arange(-reach, reach + 1, dtype=value.dtype, device=value.device)
    weights = (-(line**2) / (2 * sigma**2)).exp()
    weights = (weights / weights.sum()).expand(value.shape[1], 1, 1, -1)
    for kernel, pad in (
        (weights, (reach, reach, 0, 0)),
        (weights.transpose(2, 3), (0, 0, reach, reach)),
    ):
        value = F.conv2d(F.pad(value, pad, mode="replicate"), kernel, groups=value.shape[1])
    return value
