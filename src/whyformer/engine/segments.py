"""Whose tokens a stack's columns hold: the streams in it, one behind the other."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from whyformer.errors import ModelError
from whyformer.inputs.batch import Batch
from whyformer.models.families import Stack

Grid = tuple[int, int]


@dataclass(frozen=True)
class Segment:
    """One stream's columns in a stack; an image's class token and registers are nobody's."""

    stream: str
    start: int
    stop: int
    mask: Tensor  # (batch, tokens), False at padding
    grid: Grid | None = None

    @property
    def columns(self) -> slice:
        """Where its tokens are."""
        return slice(self.start, self.stop)


def find_segments(
    owner: str,
    stack: Stack,
    tokens: int,
    prepared: Batch,
    prefix: int | None,
    device: torch.device,
) -> tuple[Segment, ...]:
    """The stack's streams in order; raises where states and inputs have other tokens.

    `prefix` is how many tokens the family puts before an image's patches; None where no family
    says so, and a class token at the most is assumed. `owner` is the model's class, for messages.
    """
    inputs = {stream: prepared.of(stream) for stream in stack.streams}
    counts = {stream: None if one is None else one.count for stream, one in inputs.items()}
    spare = tokens - sum(count for count in counts.values() if count is not None)
    unknown = [stream for stream, count in counts.items() if count is None]
    patched = next((s for s, one in inputs.items() if one is not None and one.is_image), None)
    before = 0
    if patched is not None and (unknown or spare):
        before = (prefix or 0) if unknown else spare
        spare -= before
    if unknown:
        counts[unknown[0]], spare = spare, 0
    if spare or before < 0 or (before and before not in _allowed(prefix)) or len(unknown) > 1:
        raise ModelError(_mismatch(owner, tokens, inputs))
    segments, column = [], 0
    for stream, one in inputs.items():
        count = counts[stream]
        assert count is not None
        column += before if stream == patched else 0
        grid = _grid(one, count)
        mask = _mask(one, prepared.size, count, grid, device)
        segments.append(Segment(stream, column, column + count, mask, grid))
        column += count
    return tuple(segments)


def _allowed(prefix: int | None) -> set[int]:
    return {0, 1} if prefix is None else {0, prefix}


def _mismatch(owner: str, tokens: int, inputs: dict[str, Batch | None]) -> str:
    """The sentence for states that are not the input's tokens."""
    start = f"{tokens} token states enter the first block of {owner}, and "
    known = [one for one in inputs.values() if one is not None and one.count is not None]
    if len(known) == 1 and known[0].grid is not None:
        rows, columns = known[0].grid
        return (
            f"{start}the image has {rows} x {columns} = {rows * columns} patches: whyformer cannot"
            " tell which states are patches. If these are not the model's blocks, name them by"
            " blocks='path.to.blocks'."
        )
    has = " and ".join(
        f"{one.count} tokens" if len(known) == 1 else f"{one.count} tokens of {one.stream}"
        for one in known
    )
    return (
        f"{start}the input has {has}: it adds or drops some on the way, and whyformer cannot tell"
        " which is which"
    )


def _grid(one: Batch | None, count: int) -> Grid | None:
    """(rows, columns) of an image's tokens; of a convolutional net's, found by their number."""
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
        # As detectors do it: the mask of pixels at the size of the feature map.
        small = F.interpolate(one.pixel_mask.float().unsqueeze(1), size=grid)
        return small.flatten(1) > 0
    return torch.ones(batch, count, dtype=torch.bool, device=device)
