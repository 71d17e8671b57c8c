"""Whose tokens each stack holds: its streams are segments of its columns, one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.engine.run import Run
from whyformer.errors import ModelError
from whyformer.inputs.batch import Batch
from whyformer.models.adapters import prompt_length
from whyformer.models.families import Stack

Grid = tuple[int, int]


@dataclass(frozen=True)
class Segment:
    """One stream's columns in a stack; class and register tokens belong to no segment."""

    stream: str
    start: int
    stop: int
    mask: Tensor  # (batch, tokens), False at padding
    grid: Grid | None = None
    order: tuple[int, ...] | None = None  # the column of each token, if they are not in a row

    @property
    def columns(self) -> slice | list[int]:
        """The columns of its tokens, as an index."""
        return slice(self.start, self.stop) if self.order is None else list(self.order)

    @property
    def count(self) -> int:
        """The number of its tokens."""
        return self.mask.shape[1]

    def column(self, token: int) -> int:
        """Return the column of one of its tokens."""
        return self.start + token if self.order is None else self.order[token]


@dataclass(frozen=True)
class TokenLayout:
    """Whose tokens each stack holds, by the stack's name.

    Attributes:
        counts: Tokens in the states, class and register tokens included.
        masks: False at padding, (batch, tokens).
        segments: The streams in the stack.
    """

    counts: Mapping[str, int]
    masks: Mapping[str, Tensor]
    segments: Mapping[str, tuple[Segment, ...]]

    def add_exits(self, masks: Mapping[str, Tensor]) -> TokenLayout:
        """Return the layout with stacks that have exits but no token states, such as poolers."""
        new = {name: mask for name, mask in masks.items() if name not in self.counts}
        counts = {name: mask.shape[1] for name, mask in new.items()}
        return replace(self, counts={**self.counts, **counts}, masks={**self.masks, **new})


def find_layout(run: Run, states: Mapping[str, Tensor]) -> TokenLayout:
    """Return whose tokens the states (batch, tokens, hidden) of each stack are."""
    config = getattr(run.module, "config", None)
    prefix = _own_prefix(run) if run.family is None else run.family.prefix_tokens(config)
    counts, masks, segments = {}, {}, {}
    for name, tensor in states.items():
        counts[name] = count = tensor.shape[1]
        stack = run.stacks.tracks[name].stack
        segments[name] = _placed_segment(run, stack, count, tensor.device) or _find_segments(
            run, stack, count, prefix, tensor.device
        )
        mask = tensor.new_ones(run.batch.size, count, dtype=torch.bool)
        for segment in segments[name]:
            mask[:, segment.columns] = segment.mask.to(mask.device)
        if stack.pads:
            mask[:, segments[name][-1].stop :] = False
        masks[name] = mask
    return TokenLayout(counts, masks, segments)


def _placed_segment(
    run: Run, stack: Stack, tokens: int, device: torch.device
) -> tuple[Segment, ...]:
    """The stack's one stream where its tokens were found; nothing if they were not searched."""
    places = run.stacks.places
    if places is None or places.tokens != tokens:
        return ()
    (stream,) = stack.streams
    columns = places.columns
    start, stop = min(columns), max(columns) + 1
    mask = _mask(run.batch.of(stream), run.batch.size, len(columns), places.grid, device)
    order = None if columns == tuple(range(start, stop)) else columns
    return (Segment(stream, start, stop, mask, places.grid, order),)


def _find_segments(
    run: Run, stack: Stack, tokens: int, prefix: int | None, device: torch.device
) -> tuple[Segment, ...]:
    """The stack's streams in order; raise ModelError if states and inputs do not match.

    `prefix` is the number of tokens that the family puts before an image's patches. None if there
    is no family: then at most one class token is assumed.
    """
    first = run.batch.of(stack.streams[0])
    if first is not None and first.order is not None and max(first.order) < tokens:
        start, stop = min(first.order), max(first.order) + 1
        mask = _mask(first, run.batch.size, len(first.order), first.grid, device)
        return (Segment(first.stream, start, stop, mask, first.grid, first.order),)
    ahead, behind = stack.own
    tokens -= ahead + behind
    inputs = {stream: run.batch.of(stream) for stream in stack.streams}
    counts = {stream: None if one is None else one.count for stream, one in inputs.items()}
    spare = tokens - sum(count for count in counts.values() if count is not None)
    unknown = [stream for stream, count in counts.items() if count is None]
    patched = next((s for s, one in inputs.items() if one is not None and one.is_image), None)
    before = 0
    if patched is not None and (unknown or spare):
        before = (prefix or 0) if unknown else spare
        spare -= before
    prompt = prompt_length(run.module)
    if prompt and spare == prompt:
        # Virtual tokens of a prompt come first and belong to no stream.
        patched, before, spare, prefix = next(iter(inputs)), prompt, 0, prompt
    if unknown:
        counts[unknown[0]], spare = spare, 0
    if stack.pads:
        spare = min(spare, 0)
    if (
        spare
        or before < 0
        or (before and before not in _allowed_prefixes(prefix))
        or len(unknown) > 1
    ):
        raise _mismatch(run.name, tokens, inputs)
    segments, column = [], ahead
    for stream, one in inputs.items():
        count = counts[stream]
        assert count is not None
        column += before if stream == patched else 0
        grid = _grid(one, count)
        padded = run.batch.of(stack.like) if one is None and stack.like else one
        mask = _mask(padded, run.batch.size, count, grid, device)
        segments.append(Segment(stream, column, column + count, mask, grid))
        column += count
    return tuple(segments)


def _own_prefix(run: Run) -> int | None:
    """The number of class and register tokens that an undeclared model states itself, or None.

    timm's models count all of them; a config of transformers counts registers after a class token.
    """
    for part in (run.module, *run.module.children()):
        count = getattr(part, "num_prefix_tokens", None)
        if isinstance(count, int):
            return count
    registers = getattr(getattr(run.module, "config", None), "num_register_tokens", None)
    return registers + 1 if isinstance(registers, int) else None


def _allowed_prefixes(prefix: int | None) -> set[int]:
    return {0, 1} if prefix is None else {0, prefix}


def _mismatch(owner: str, tokens: int, inputs: dict[str, Batch | None]) -> ModelError:
    """The error for states that are not the input's tokens."""
    start = f"{tokens} token states enter the first block of {owner}, and"
    known = [one for one in inputs.values() if one is not None and one.count is not None]
    if len(known) == 1 and known[0].grid is not None:
        rows, columns = known[0].grid
        return ModelError(
            f"{start} the image has {rows} x {columns} = {rows * columns} patches: whyformer cannot"
            " tell which states are patches",
            argument="blocks",
            remedy="If these are not the model's blocks, name them: blocks='path.to.blocks'",
        )
    counts = " and ".join(
        f"{one.count} tokens" if len(known) == 1 else f"{one.count} tokens of {one.stream}"
        for one in known
    )
    return ModelError(
        f"{start} the input has {counts}: the model adds or drops some, and whyformer cannot tell"
        " which is which",
        argument="blocks",
        remedy="If these are not the model's blocks, name them: blocks='path.to.blocks'",
    )


def _grid(one: Batch | None, count: int) -> Grid | None:
    """(rows, columns) of an image's tokens; for a convolutional backbone, from their number."""
    if one is None or one.grid is not None or one.image is None or one.mask is not None:
        return None if one is None else one.grid
    height, width = one.image.shape[-2:]
    for halvings in range(8):
        grid = (-(-height // 2**halvings), -(-width // 2**halvings))
        if grid[0] * grid[1] == count:
            return grid
    return None


def _mask(
    one: Batch | None, batch: int, count: int, grid: Grid | None, device: torch.device
) -> Tensor:
    """True at real tokens, (batch, tokens)."""
    if one is not None and one.mask is not None:
        return one.mask
    if one is not None and one.pixel_mask is not None and grid is not None:
        # As detectors do: the pixel mask resized to the feature map.
        small = F.interpolate(one.pixel_mask.float().unsqueeze(1), size=grid)
        return small.flatten(1) > 0
    return torch.ones(batch, count, dtype=torch.bool, device=device)
