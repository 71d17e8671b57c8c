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
    user_columns: int  # columns that the user passed
    model_columns: int  # columns that the model sees

    def take(self, rows: Sequence[int], inner: int | None = None) -> Layout:
        """Return the layout of the given samples, with `inner` model columns if given."""
        shift = tuple(self.shift[row] for row in rows)
        return Layout(shift, self.user_columns, self.model_columns if inner is None else inner)

    def to_model(self, tensor: Tensor) -> Tensor:
        """(batch, given, ...) as the model is to see it, (batch, inner, ...)."""
        rows = [row.roll(-shift, 0) for row, shift in zip(tensor, self.shift, strict=True)]
        return torch.stack(rows)[:, : self.model_columns]

    def row_to_model(self, items: Sequence[Item], sample: int) -> list[Item]:
        """One sample's items, one per given column, as the model sees them."""
        shift = self.shift[sample]
        return [*items[shift:], *items[:shift]][: self.model_columns]

    def to_user(self, tensor: Tensor, dim: int = 1) -> Tensor:
        """What the model's columns along `dim` hold, in the user's columns; zeros in cut ones."""
        moved = tensor.transpose(1, dim)
        if self.user_columns > self.model_columns:
            cut = moved.new_zeros(
                moved.shape[0], self.user_columns - self.model_columns, *moved.shape[2:]
            )
            moved = torch.cat([moved, cut], dim=1)
        rows = [row.roll(shift, 0) for row, shift in zip(moved, self.shift, strict=True)]
        return torch.stack(rows).transpose(1, dim)

    def column(self, sample: int, position: int) -> int:
        """The model's column of a position that the user counts."""
        return (position - self.shift[sample]) % self.user_columns

    def position(self, sample: int, column: int) -> int:
        """The user's position of one of the model's columns."""
        return (column + self.shift[sample]) % self.user_columns


def move_arguments(arguments: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """The arguments with every tensor that has one entry per given column moved to_model."""
    batch = len(layout.shift)
    moved: dict[str, Any] = dict(arguments)
    for name, value in arguments.items():
        if not isinstance(value, Tensor) or value.ndim < 2 or value.shape[1] != layout.user_columns:
            continue
        if name.startswith(OTHER_STREAMS):
            continue
        if value.shape[0] == 1 and name == "position_ids":
            value = value.expand(batch, -1)
        if value.shape[0] == batch:
            moved[name] = layout.to_model(value)
    return moved


def restore_output(output: Any, layout: Layout) -> Any:
    """The model's raw output with its token axis in the user's columns, for a user's callable."""
    batch = len(layout.shift)
    if isinstance(output, Tensor):
        fits = output.ndim >= 2 and output.shape[:2] == (batch, layout.model_columns)
        return layout.to_user(output) if fits else output
    if isinstance(output, Mapping):
        moved = {key: restore_output(value, layout) for key, value in output.items()}
        # The outputs of transformers are dataclasses too: attribute access must survive.
        return type(output)(**moved) if hasattr(output, "to_tuple") else moved
    if isinstance(output, tuple) and not hasattr(output, "_fields"):
        return tuple(restore_output(value, layout) for value in output)
    return output


def restore_padding(attribution: Attribution, layouts: Mapping[str, Layout]) -> Attribution:
    """The attribution with tokens where the user put them, by stream; itself if nothing moved."""
    if not layouts:
        return attribution

    def moved(tensor: Tensor, *names: str) -> Tensor:
        """The tensor with its token axes, behind the batch's, back in the user's columns."""
        for dim, name in enumerate(names, start=1):
            tensor = layouts[name].to_user(tensor, dim) if name in layouts else tensor
        return tensor

    streams = {
        name: _stream(stream, layouts[name]) if name in layouts else stream
        for name, stream in attribution.streams.items()
    }
    widths = {name: stream.scores.shape[1] for name, stream in attribution.streams.items()}
    return replace(
        attribution,
        streams=streams,
        layers=tuple(_layer(layer, layouts, widths) for layer in attribution.layers),
        maps={key: moved(value, *key) for key, value in attribution.maps.items()},
    )


def _stream(stream: Stream, layout: Layout) -> Stream:
    def listed(rows: Any, padding: Any) -> Any:
        if rows is None:
            return None
        cut = [padding] * (layout.user_columns - layout.model_columns)
        back = [
            ([*row, *cut][-shift:] if shift else []) + [*row, *cut][: layout.user_columns - shift]
            for row, shift in zip(rows, layout.shift, strict=True)
        ]
        return tuple(tuple(row) for row in back)

    return replace(
        stream,
        scores=layout.to_user(stream.scores),
        mask=layout.to_user(stream.mask),
        tokens=listed(stream.tokens, ""),
        word_ids=listed(stream.word_ids, None),
        states=None if stream.states is None else layout.to_user(stream.states),
        deciding=None if stream.deciding is None else layout.to_user(stream.deciding),
    )


def _layer(layer: Layer, layouts: Mapping[str, Layout], widths: Mapping[str, int]) -> Layer:
    stacks = (layer.asking, layer.answering)
    axes = {
        "attention": dict(zip((2, 3), stacks, strict=True)),
        "gradient": dict(zip((2, 3), stacks, strict=True)),
        "relevance": dict(zip((2, 3), stacks, strict=True)),
        "entering": {1: layer.asking},
        "leaving": {1: layer.asking},
    }

    def moved(tensor: Tensor, dims: Mapping[int, str]) -> Tensor:
        for dim, stack in dims.items():
            # A stack may hold several streams; the first ones are those that can be moved.
            names, start = stack.split("+"), 0
            pieces = []
            for name in names[:-1]:
                pieces.append((name, tensor.narrow(dim, start, widths[name])))
                start += widths[name]
            rest = tensor.shape[dim] - start
            pieces.append((names[-1], tensor.narrow(dim, start, rest)))
            tensor = torch.cat(
                [layouts[n].to_user(p, dim) if n in layouts else p for n, p in pieces], dim
            )
        return tensor

    kept: dict[str, Any] = {
        part: moved(tensor, axes[part])
        for part in axes
        if (tensor := getattr(layer, part)) is not None
    }
    return replace(layer, **kept)
