"""Remove tokens or pixels from a batch and fill the gaps, for metrics that rerun the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from whyformer.errors import InputError, OptionError
from whyformer.inputs.baseline import neutral_id
from whyformer.inputs.batch import Batch
from whyformer.inputs.padding import padding_id
from whyformer.inputs.padding_layout import OTHER_STREAMS
from whyformer.models.families import Family, Source
from whyformer.models.signature import forward_of, vocabulary_of

# The fills of each kind of stream; the first is the default.
FILLS = {
    "ids": ("drop", "mask", "unknown", "zero", "mean"),
    "features": ("drop", "zero", "mean"),
    "pixels": ("zero", "black", "mean", "blur"),
    "frames": ("zero", "mean"),
    "sound": ("zero", "mean"),
    "waveform": ("zero", "mean"),
    "video": ("zero", "mean"),
}
TIME_AXES = {"frames": 1, "sound": 2, "waveform": 1}  # of the streams that are sound
FILL_TEXTS = {
    "drop": "deleted; if no token remains, one neutral token is used",
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
    """A batch without the removed tokens, and the word embeddings to overwrite."""

    batch: Batch
    silenced: Tensor | None = None  # (batch, tokens), True where the embedding is overwritten


@dataclass(frozen=True)
class Removal:
    """Removes tokens from one batch.

    Args:
        batch: The inputs to remove tokens from.
        module: The model.
        family: Its family, if any.
        fill: A key of `FILL_TEXTS`, one by stream, or None for the default of each stream.
        image_processor: Knows the normalised value of black, for `fill="black"`.
    """

    batch: Batch
    module: nn.Module
    family: Family | None = None
    fill: str | Mapping[str, str] | None = None
    image_processor: Any = None

    def source(self, stream: str) -> Source:
        """The arguments that carry a stream's tokens; raise InputError if there are none."""
        found = self.batch.of(stream)
        if found is None:
            raise InputError(
                f"the tokens of stream '{stream}' are not in the inputs, so none can be removed;"
                f" the inputs have {', '.join(one.stream for one in self.batch)}",
                argument="inputs",
            )
        for source in self.family.sources if self.family else ():
            if source.stream == stream:
                return source
        value = self.batch.arguments[found.carrier]
        numbers = "features" if value.is_floating_point() else "ids"
        kind = "pixels" if value.is_floating_point() and value.ndim == 4 else numbers
        return Source(stream, found.carrier, kind)

    def fill_of(self, stream: str) -> str:
        """How a stream's gaps are filled; raise OptionError if the stream has no such fill."""
        kind = self.source(stream).kind
        if kind not in FILLS:
            raise InputError(
                f"no part of stream '{stream}' can be removed: it is {kind} of several images",
                argument="inputs",
                remedy="Use methods and metrics that remove nothing, or remove from another stream",
            )
        fill = self.fill.get(stream) if isinstance(self.fill, Mapping) else self.fill
        if fill is None:
            return FILLS[kind][0]
        check_fill(fill)
        if fill not in FILLS[kind]:
            raise OptionError(
                f"fill={fill!r} is not for stream '{stream}', which is {kind}",
                argument="fill",
                remedy=f"Choose one of {', '.join(FILLS[kind])}",
            )
        return fill

    def remove(
        self, stream: str, kept: Tensor, rows: Tensor, grid: tuple[int, int] | None = None
    ) -> Remainder:
        """Return samples of the batch with only some tokens of one stream.

        Args:
            stream: The stream that loses tokens.
            kept: (rows, tokens) or (rows, pixels), True at what stays.
            rows: The samples; see `Batch.take`.
            grid: (rows, columns) of patches, if `kept` is about patches of an image.
        """
        source, fill = self.source(stream), self.fill_of(stream)
        some = self.batch.take(rows)
        read = some.of(stream)
        if read is not None and read.layout is not None:
            kept = read.layout.to_model(kept)
        if some.soft is not None and stream == some.stream:
            kept = kept | some.soft.columns.to(kept.device)  # images keep their placeholders
        value: Tensor = some.arguments[source.carrier]
        kept = kept.to(value.device)
        real = torch.ones_like(kept)  # padding is neither kept nor filled
        if read is not None and read.mask is not None and read.mask.shape[1] == kept.shape[1]:
            real = read.mask.to(value.device)
        gone = real & ~kept
        if source.kind == "pixels":
            new = value.where(_kept_pixels(value, kept, grid), self._pixel_fill(value, fill))
        elif source.kind == "video":
            mean = value.mean((1, 3, 4), keepdim=True) if fill == "mean" else value.new_zeros(())
            new = value.where(_kept_video(value, kept, grid), mean)
        elif source.kind in TIME_AXES:
            new = value.where(
                self._kept_sound(source, kept, value, grid), self._sound_fill(value, fill, source)
            )
        elif fill == "drop":
            return Remainder(self._drop(some, source, kept, real))
        elif source.kind == "features":
            tokens = value.unsqueeze(0) if some.packed else value
            mean = _token_mean(tokens, real) if fill == "mean" else value.new_zeros(())
            new = tokens.where(~gone.unsqueeze(2), mean).reshape(value.shape)
        elif fill in ("zero", "mean"):
            return Remainder(some, gone)
        else:
            new = value.where(~gone, self._token_fill(fill, source))
        return Remainder(_with(some, {source.carrier: new}))

    def _kept_sound(
        self, source: Source, kept: Tensor, value: Tensor, grid: tuple[int, int] | None
    ) -> Tensor:
        """True at the sound of kept tokens; broadcasts to the shape of `value`.

        A frame or sample belongs to the last token that is complete with it.
        """
        if source.grid is not None and grid is not None:  # rows are pitches, columns are times
            size = (value.shape[2], value.shape[1])
            return (F.interpolate(kept.unflatten(1, grid).float().unsqueeze(1), size) > 0).mT[:, 0]
        axis = TIME_AXES[source.kind]
        complete = source.count_tokens(self.module, torch.arange(1, value.shape[axis] + 1))
        frames = kept[:, (complete - 1).clamp(0, kept.shape[1] - 1).to(kept.device)]
        return frames if value.ndim == 2 else frames.unsqueeze(3 - axis)

    def _sound_fill(self, value: Tensor, fill: str, source: Source) -> Tensor:
        """What replaces removed frames or samples; broadcasts to the shape of `value`."""
        if fill == "zero":
            return value.new_zeros(())
        return value.mean(TIME_AXES[source.kind], keepdim=True)

    def runs_together(self, stream: str) -> bool:
        """Whether samples that keep different numbers of tokens can be in one batch."""
        source = self.source(stream)
        if self.fill_of(stream) != "drop":
            return True
        has_mask = isinstance(self.batch.arguments.get(self._mask_name(source)), Tensor)
        return has_mask and source.allows_padding(self.module)

    def _mask_name(self, source: Source) -> str:
        if self.family is not None and len(self.family.sources) > 1:
            return source.mask or ""  # the forward's own padding mask may be another stream's
        return source.mask or forward_of(self.module).padding_mask or "attention_mask"

    def _pixel_fill(self, value: Tensor, fill: str) -> Tensor:
        """The pixel values that replace removed ones; broadcasts to (batch, channel, y, x)."""
        if fill == "mean":
            return value.mean((2, 3), keepdim=True)
        if fill == "blur":
            return _blur(value)
        if fill == "zero":
            return value.new_zeros(())
        if self.image_processor is None:
            raise OptionError(
                "fill='black' needs the normalisation of the pixels, which is unknown",
                argument="fill",
                remedy="Pass the model's image processor, or fill with 'zero', 'mean' or 'blur'",
            )
        if getattr(self.image_processor, "do_normalize", True) is False:
            return value.new_zeros(())
        moments = (self.image_processor.image_mean, self.image_processor.image_std)
        mean, deviation = (torch.as_tensor(m).reshape(1, -1, 1, 1).to(value) for m in moments)
        return -mean / deviation

    def _token_fill(self, fill: str, source: Source) -> int:
        """The id that replaces a removed token."""
        tokenizer = self.batch.tokenizer
        role = {"mask": "mask", "unknown": "unk"}[fill]
        found = getattr(tokenizer, f"{role}_token_id", None)
        size = vocabulary_of(source.submodule(self.module))
        if not isinstance(found, int) or (size is not None and found >= size):
            raise OptionError(
                f"fill={fill!r}: the tokenizer of {type(self.module).__name__} has no {fill} token",
                argument="fill",
                remedy=f"Choose one of {', '.join(f for f in FILLS['ids'] if f != fill)}",
            )
        return found

    def _drop(self, some: Batch, source: Source, kept: Tensor, real: Tensor) -> Batch:
        """The samples without the removed tokens, padded on the right."""
        value: Tensor = some.arguments[source.carrier]
        empty = ~kept.any(1)
        stay = kept.clone()
        stay[empty, real.int().argmax(1)[empty]] = True
        index = (~stay).int().argsort(dim=1, stable=True)[:, : int(stay.sum(1).max())]
        there = stay.gather(1, index)
        mask = self._mask_name(source)
        changed: dict[str, Any] = {}
        for name in self._token_arguments(some, source, mask):
            entry: Tensor = some.arguments[name]
            wide = index.reshape(*index.shape, *[1] * (entry.ndim - 2))
            changed[name] = entry.gather(1, wide.expand(*index.shape, *entry.shape[2:]))
        if "position_ids" in changed:  # the remaining tokens get the first positions
            changed["position_ids"] = some.arguments["position_ids"][:, : index.shape[1]]
        if mask in changed and mask.endswith("key_padding_mask"):  # torch's: set at padding
            at_padding = True if changed[mask].dtype == torch.bool else -torch.inf
            changed[mask] = torch.zeros_like(changed[mask]).masked_fill(~there, at_padding)
        elif mask in changed:
            changed[mask] = changed[mask] * there
        elif not bool(there.all()):
            raise InputError(
                f"the inputs of {type(self.module).__name__} have no mask, so samples of different"
                " lengths cannot run together",
                argument="inputs",
                remedy=f"Pass '{mask}' in a mapping, or one sample at a time"
                if mask
                else "Pass one sample at a time",
            )
        if value.is_floating_point():
            changed[source.carrier][empty] = 0
        else:
            part, tokenizer = source.submodule(self.module), self.batch.tokenizer
            ids = changed[source.carrier].masked_fill(~there, padding_id(part, tokenizer))
            ids[empty, 0] = neutral_id(part, tokenizer)
            changed[source.carrier] = ids
        return _with(some, changed)

    def _token_arguments(self, some: Batch, source: Source, mask: str) -> list[str]:
        """The names of the arguments with one entry per token of the stream."""
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


def check_fill(fill: str) -> None:
    """Raise OptionError if there is no such fill."""
    if fill not in FILL_TEXTS:
        raise OptionError(
            f"fill={fill!r} is unknown",
            argument="fill",
            remedy=f"Choose one of {', '.join(FILL_TEXTS)}",
        )


def _with(batch: Batch, changed: Mapping[str, Any]) -> Batch:
    return replace(batch, arguments={**batch.arguments, **changed})


def _token_mean(value: Tensor, real: Tensor) -> Tensor:
    """The mean of each sample's real tokens, (batch, 1, width)."""
    weights = real.unsqueeze(2).to(value.dtype)
    return (value * weights).sum(1, keepdim=True) / weights.sum(1, keepdim=True)


def _kept_video(value: Tensor, kept: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """True at the pixels of kept tokens, (batch, frames, 1, height, width).

    The rows of the grid are those of the first frames' patches, then of the next ones.
    """
    assert grid is not None
    frames, _, height, width = value.shape[1:]
    rows = grid[1] * height // width
    patches = kept.unflatten(1, (grid[0] // rows, rows, grid[1])).float().unsqueeze(1)
    return F.interpolate(patches, (frames, height, width)).movedim(1, 2) > 0


def _kept_pixels(value: Tensor, kept: Tensor, grid: tuple[int, int] | None) -> Tensor:
    """(batch, 1, height, width), True at kept pixels; `kept` is about pixels or patches."""
    size = value.shape[-2:]
    if kept.shape[1] == size[0] * size[1]:
        return kept.unflatten(1, size).unsqueeze(1)
    if grid is not None and kept.shape[1] == grid[0] * grid[1]:
        return F.interpolate(kept.unflatten(1, grid).float().unsqueeze(1), size) > 0
    raise InputError(
        f"the mask of kept pixels or patches has {kept.shape[1]} entries, which does not fit an"
        f" image of {size[0]} x {size[1]}"
    )


def _blur(value: Tensor) -> Tensor:
    """The image under a Gaussian of a twentieth of its longer side, with edges repeated."""
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
