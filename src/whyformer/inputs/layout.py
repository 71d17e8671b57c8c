"""Padding moved behind the tokens before the model runs, and back to where it was afterwards.

Many models number positions by column, or read their answer in column 0: with padding in front
they answer differently, whatever the mask says. Moving it behind makes left equal right equal
none for all of them, without knowing how a model counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Layer, Stream

Item = TypeVar("Item")
# Arguments beside the text of a two-stream model, which may happen to be as many as its tokens.
OTHER_STREAMS = ("visual_", "pixel_", "image_")


@dataclass(frozen=True)
class Layout:
    """Where the user's columns are in what the model sees."""

    shift: tuple[int, ...]  # columns of padding in front, per sample
    given: int  # columns that the user passed
    inner: int  # columns that the model sees

    def inward(self, tensor: Tensor) -> Tensor:
        """(batch, given, ...) as the model is to see it, (batch, inner, ...)."""
        rows = [row.roll(-shift, 0) for row, shift in zip(tensor, self.shift, strict=True)]
        return torch.stack(rows)[:, : self.inner]

    def row(self, items: Sequence[Item], sample: int) -> list[Item]:
        """One sample's items, one per given column, as the model sees them."""
        shift = self.shift[sample]
        return [*items[shift:], *items[:shift]][: self.inner]

    def outward(self, tensor: Tensor, dim: int = 1) -> Tensor:
        """What the model's columns along `dim` hold, in the user's columns; zeros in cut ones."""
        moved = tensor.transpose(1, dim)
        if self.given > self.inner:
            cut = moved.new_zeros(moved.shape[0], self.given - self.inner, *moved.shape[2:])
            moved = torch.cat([moved, cut], dim=1)
        rows = [row.roll(shift, 0) for row, shift in zip(moved, self.shift, strict=True)]
        return torch.stack(rows).transpose(1, dim)

    def column(self, sample: int, position: int) -> int:
        """The model's column of a position that the user counts."""
        return (position - self.shift[sample]) % self.given

    def position(self, sample: int, column: int) -> int:
        """The user's position of one of the model's columns."""
        return (column + self.shift[sample]) % self.given


def moved_arguments(arguments: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """The arguments with every tensor that has one entry per given column moved inward."""
    batch = len(layout.shift)
    moved: dict[str, Any] = dict(arguments)
    for name, value in arguments.items():
        if not isinstance(value, Tensor) or value.ndim < 2 or value.shape[1] != layout.given:
            continue
        if name.startswith(OTHER_STREAMS):
            continue
        if value.shape[0] == 1 and name == "position_ids":
            value = value.expand(batch, -1)
        if value.shape[0] == batch:
            moved[name] = layout.inward(value)
    return moved


def output_as_given(output: Any, layout: Layout) -> Any:
    """The model's raw output with its token axis in the user's columns, for a user's callable."""
    batch = len(layout.shift)
    if isinstance(output, Tensor):
        fits = output.ndim >= 2 and output.shape[:2] == (batch, layout.inner)
        return layout.outward(output) if fits else output
    if isinstance(output, Mapping):
        moved = {key: output_as_given(value, layout) for key, value in output.items()}
        # The outputs of transformers are dataclasses too: attribute access must survive.
        return type(output)(**moved) if hasattr(output, "to_tuple") else moved
    if isinstance(output, tuple) and not hasattr(output, "_fields"):
        return tuple(output_as_given(value, layout) for value in output)
    return output


def as_given(attribution: Attribution, layout: Layout | None) -> Attribution:
    """The attribution with tokens where the user put them; itself where nothing was moved."""
    if layout is None:
        return attribution
    return replace(
        attribution,
        streams={name: _stream(stream, layout) for name, stream in attribution.streams.items()},
        layers=tuple(_layer(layer, layout) for layer in attribution.layers),
        maps={key: _square(value, layout, (1, 2)) for key, value in attribution.maps.items()},
    )


def _stream(stream: Stream, layout: Layout) -> Stream:
    if stream.scores.shape[1] != layout.inner or stream.grid is not None:
        return stream

    def listed(rows: Any, padding: Any) -> Any:
        if rows is None:
            return None
        cut = [padding] * (layout.given - layout.inner)
        back = [
            ([*row, *cut][-shift:] if shift else []) + [*row, *cut][: layout.given - shift]
            for row, shift in zip(rows, layout.shift, strict=True)
        ]
        return tuple(tuple(row) for row in back)

    return replace(
        stream,
        scores=layout.outward(stream.scores),
        mask=layout.outward(stream.mask),
        tokens=listed(stream.tokens, ""),
        word_ids=listed(stream.word_ids, None),
        states=None if stream.states is None else layout.outward(stream.states),
    )


def _layer(layer: Layer, layout: Layout) -> Layer:
    token_axes = {
        "attention": (2, 3),
        "gradient": (2, 3),
        "relevance": (2, 3),
        "entering": (1,),
        "leaving": (1,),
    }
    kept = {part: getattr(layer, part) for part in token_axes}
    return replace(
        layer,
        **{
            part: None if tensor is None else _square(tensor, layout, token_axes[part])
            for part, tensor in kept.items()
        },
    )


def _square(tensor: Tensor, layout: Layout, dims: tuple[int, ...]) -> Tensor:
    """The tensor with its token axes back in the user's columns, where it has them."""
    for dim in dims:
        if tensor.ndim > dim and tensor.shape[dim] == layout.inner:
            tensor = layout.outward(tensor, dim)
    return tensor
