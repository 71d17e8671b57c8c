"""The features of each sample: which tokens of which stream are removed together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from whyformer.engine.run import Run
from whyformer.engine.segments import Segment, TokenLayout
from whyformer.errors import InputError, OptionError
from whyformer.inputs.baseline import known_special_ids
from whyformer.inputs.batch import Batch
from whyformer.inputs.removal import Removal
from whyformer.methods.perturbation.units import (
    Columns,
    Division,
    sentences,
    windows,
    words,
)
from whyformer.models.signature import samples_axis

TEXT_UNITS = ("word", "sentence")


@dataclass(frozen=True)
class Feature:
    """Tokens of one stream that are removed together."""

    stream: str
    columns: Columns


def removable_segments(run: Run, layout: TokenLayout, removal: Removal) -> dict[str, Segment]:
    """Return the streams whose tokens can be removed; raise InputError if the main one cannot."""
    batch = run.batch
    found = {
        segment.stream: segment
        for segments in layout.segments.values()
        for segment in segments
        if batch.of(segment.stream) is not None
        and (removal.source(segment.stream).kind != "pixels" or segment.grid is not None)
    }
    tiled = any(one.order is not None for one in batch)
    if batch.stream not in found or tiled or samples_axis(run.module) != 0:
        raise InputError(
            f"no tokens can be removed from the inputs of {run.name}: it is not known which part"
            f" of '{batch.carrier}' belongs to which token",
            argument="inputs",
            remedy="Use a method that does not remove tokens",
        )
    return {batch.stream: found.pop(batch.stream), **found}


def find_features(
    run: Run,
    segments: dict[str, Segment],
    removal: Removal,
    unit: Division | None = None,
    size: int = 1,
) -> list[tuple[Feature, ...]]:
    """Return the features of each sample, the main stream's first.

    Args:
        run: The model on a batch.
        segments: The streams that lose tokens.
        removal: Knows what each stream is made of.
        unit: What is removed together; by default single tokens of text and patches of an image.
            Streams that do not have this unit are removed token by token.
        size: An image's features are windows of size x size patches.
    """
    kinds = {stream: removal.source(stream).kind for stream in segments}
    _check_unit(run, kinds, unit)
    _check_size(run, segments, kinds, size)
    found = []
    for sample in range(run.batch.size):
        features = []
        for stream, segment in segments.items():
            read = run.batch.of(stream)
            assert read is not None
            columns = _columns(run, removal, read, segment, sample)
            for group in _group(read, segment, kinds[stream], sample, columns, unit, size):
                features.append(Feature(stream, group))
        if len(features) < 2:
            noun = unit if unit not in (None, "longest") else "token"
            raise InputError(
                f"sample {sample} has {len(features) or 'no'} {noun}"
                f"{'' if len(features) == 1 else 's'} that can be removed, special tokens aside:"
                " there is nothing to compare",
                argument="unit" if unit in TEXT_UNITS else "inputs",
                remedy="Pass a smaller unit" if unit in TEXT_UNITS else "Pass a longer input",
            )
        found.append(tuple(features))
    return found


def _check_unit(run: Run, kinds: dict[str, str], unit: Division | None) -> None:
    """Raise OptionError if no stream has such units."""
    fitting = {
        None: list(kinds),
        "longest": list(kinds),
        "patch": [stream for stream, kind in kinds.items() if kind == "pixels"],
        "token": [stream for stream, kind in kinds.items() if kind != "pixels"],
    }.get(unit, [stream for stream, kind in kinds.items() if kind == "ids"])
    if not fitting:
        streams = " and ".join(f"'{stream}'" for stream in kinds)
        raise OptionError(
            f"unit={unit!r} is not a unit of the inputs of {run.name}, which are {streams}",
            argument="unit",
            remedy="Leave out unit=",
        )
    unread = (run.batch.of(stream) for stream in fitting)
    if unit in TEXT_UNITS and all(one is None or one.word_ids is None for one in unread):
        raise OptionError(
            f"unit={unit!r} needs the text of the tokens, and there is no tokenizer",
            argument="unit",
            remedy="Pass processor=, the model's tokenizer, or unit='token'",
        )


def _check_size(run: Run, segments: dict[str, Segment], kinds: dict[str, str], size: int) -> None:
    """Raise OptionError if windows of this size do not fit the images."""
    grids = [segments[s].grid for s, kind in kinds.items() if kind == "pixels"]
    largest = min((min(grid) for grid in grids if grid is not None), default=1)
    if not 1 <= size <= largest:
        raise OptionError(
            f"size={size} does not fit the inputs of {run.name}",
            argument="size",
            remedy=f"Pass 1 to {largest} patches" if grids else "It is about images; leave it out",
        )


def _columns(run: Run, removal: Removal, read: Batch, segment: Segment, sample: int) -> list[int]:
    """The places of one sample's tokens, without padding and special tokens."""
    real = segment.mask[sample].cpu()
    source = removal.source(read.stream)
    if source.kind == "ids":
        ids = run.batch.arguments[read.carrier][sample].cpu()
        special = known_special_ids(source.submodule(run.module), run.batch.tokenizer)
        real = real & ~torch.isin(ids, torch.tensor(sorted(special), dtype=ids.dtype))
        if run.batch.soft is not None and read.stream == run.batch.stream:
            real = real & ~run.batch.soft.columns[sample].cpu()  # images keep their placeholders
    columns: list[int] = real.nonzero().flatten().tolist()
    return columns


def _group(
    read: Batch,
    segment: Segment,
    kind: str,
    sample: int,
    columns: list[int],
    unit: Division | None,
    size: int,
) -> Iterator[Columns]:
    """The columns of each feature of one stream."""
    if kind == "pixels" and segment.grid is not None and size > 1:
        real = set(columns)
        cut = (tuple(c for c in window if c in real) for window in windows(segment.grid, size))
        yield from (window for window in cut if window)
    elif kind == "ids" and unit not in (None, "token", "patch") and read.word_ids is not None:
        ways = {"sentence": (sentences,), "word": (words,)}.get(unit, (sentences, words))
        found = [way(read, sample, columns) for way in ways]
        yield from next((groups for groups in found if len(groups) > 1), found[-1])
    else:
        yield from ((column,) for column in columns)
