"""Move left padding to the right before the model runs, and back afterwards.

Many models number positions by column, or read their prediction in column 0. Left padding changes
their output, even with a correct mask. With all padding on the right, any padding gives the same
result for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Layer, Nodes, Stream

Item = TypeVar("Item")
# Arguments of a second stream; their token count may equal the text's by chance.
OTHER_STREAMS = ("visual_", "pixel_", "image_")
MARKS = ("image_embeds_position_mask",)  # of tokens of the text, though named after the image


@dataclass(frozen=True)
class Layout:
    """How the user's columns map to the model's columns."""

    shift: tuple[int, ...]  # columns of left padding, per sample
    user_columns: int  # columns in the user's tensors
    model_columns: int  # columns in the model's tensors

    def take(self, rows: Sequence[int], columns: int | None = None) -> Layout:
        """Return the layout of the given samples, cut to `columns` model columns."""
        shift = tuple(self.shift[row] for row in rows)
        return Layout(shift, self.user_columns, columns or self.model_columns)

    def to_model(self, tensor: Tensor) -> Tensor:
        """Return (batch, user columns, ...) as (batch, model columns, ...)."""
        rows = [row.roll(-shift, 0) for row, shift in zip(tensor, self.shift, strict=True)]
        return torch.stack(rows)[:, : self.model_columns]

    def row_to_model(self, items: Sequence[Item], sample: int) -> list[Item]:
        """Return one sample's items, one per user column, in the order of the model's columns."""
        shift = self.shift[sample]
        return [*items[shift:], *items[:shift]][: self.model_columns]

    def to_user(self, tensor: Tensor, dim: int = 1) -> Tensor:
        """Return the tensor with axis `dim` in the user's columns; zeros in cut columns."""
        moved = tensor.transpose(1, dim)
        if self.user_columns > self.model_columns:
            cut = moved.new_zeros(
                moved.shape[0], self.user_columns - self.model_columns, *moved.shape[2:]
            )
            moved = torch.cat([moved, cut], dim=1)
        rows = [row.roll(shift, 0) for row, shift in zip(moved, self.shift, strict=True)]
        return torch.stack(rows).transpose(1, dim)

    def column(self, sample: int, position: int) -> int:
        """The model's column of one of the user's positions."""
        return (position - self.shift[sample]) % self.user_columns

    def position(self, sample: int, column: int) -> int:
        """The user's position of one of the model's columns."""
        return (column + self.shift[sample]) % self.user_columns


def move_arguments(arguments: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Return the arguments with the model's columns in every tensor that has the user's."""
    batch = len(layout.shift)
    moved: dict[str, Any] = dict(arguments)
    for name, value in arguments.items():
        if not isinstance(value, Tensor) or value.ndim < 2 or value.shape[1] != layout.user_columns:
            continue
        if name.startswith(OTHER_STREAMS) and name not in MARKS:
            continue
        if value.shape[0] == 1 and name == "position_ids":
            value = value.expand(batch, -1)
        if value.shape[0] == batch:
            moved[name] = layout.to_model(value)
    return moved


def restore_output(output: Any, layout: Layout) -> Any:
    """Return the model's raw output with the user's columns, for a target that is a callable."""
    batch = len(layout.shift)
    if isinstance(output, Tensor):
        fits = output.ndim >= 2 and output.shape[:2] == (batch, layout.model_columns)
        return layout.to_user(output) if fits else output
    if isinstance(output, Mapping):
        moved = {key: restore_output(value, layout) for key, value in output.items()}
        # A transformers output is a dataclass too: keep its type for attribute access.
        return type(output)(**moved) if hasattr(output, "to_tuple") else moved
    if isinstance(output, tuple) and not hasattr(output, "_fields"):
        return tuple(restore_output(value, layout) for value in output)
    return output


def restore_padding(attribution: Attribution, layouts: Mapping[str, Layout]) -> Attribution:
    """Return the attribution with every stream in the user's columns."""
    if not layouts:
        return attribution

    def move_axes(tensor: Tensor, *names: str) -> Tensor:
        """Move the token axes, which follow the batch axis, to the user's columns."""
        for dim, name in enumerate(names, start=1):
            tensor = layouts[name].to_user(tensor, dim) if name in layouts else tensor
        return tensor

    streams = {
        name: _restore_stream(stream, layouts[name]) if name in layouts else stream
        for name, stream in attribution.streams.items()
    }
    widths = {name: stream.scores.shape[1] for name, stream in attribution.streams.items()}
    return replace(
        attribution,
        streams=streams,
        layers=tuple(_restore_layer(layer, layouts, widths) for layer in attribution.layers),
        nodes={
            stack: _restore_nodes(nodes, stack, layouts, widths)
            for stack, nodes in attribution.nodes.items()
        },
        maps={key: move_axes(value, *key) for key, value in attribution.maps.items()},
    )


def _restore_stream(stream: Stream, layout: Layout) -> Stream:
    def move_items(rows: Any, padding: Any) -> Any:
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
        tokens=move_items(stream.tokens, ""),
        word_ids=move_items(stream.word_ids, None),
        states=None if stream.states is None else layout.to_user(stream.states),
        deciding=None if stream.deciding is None else layout.to_user(stream.deciding),
        errors=None if stream.errors is None else layout.to_user(stream.errors),
    )


def _restore_layer(layer: Layer, layouts: Mapping[str, Layout], widths: Mapping[str, int]) -> Layer:
    stacks = (layer.asking, layer.answering)
    axes = {
        "attention": dict(zip((2, 3), stacks, strict=True)),
        "gradient": dict(zip((2, 3), stacks, strict=True)),
        "relevance": dict(zip((2, 3), stacks, strict=True)),
        "entering": {1: layer.asking},
        "leaving": {1: layer.asking},
    }
    kept: dict[str, Any] = {
        part: _move_stacks(tensor, axes[part], layouts, widths)
        for part in axes
        if (tensor := getattr(layer, part)) is not None
    }
    return replace(layer, **kept)


def _restore_nodes(
    nodes: Nodes, stack: str, layouts: Mapping[str, Layout], widths: Mapping[str, int]
) -> Nodes:
    kept: dict[str, Any] = {
        part: _move_stacks(nodes.tensors[part], {dim: stack}, layouts, widths)
        for part, dim in (("states", 2), ("heads", 3))
        if part in nodes.tensors
    }
    return replace(nodes, **kept)


def _move_stacks(
    tensor: Tensor,
    dims: Mapping[int, str],
    layouts: Mapping[str, Layout],
    widths: Mapping[str, int],
) -> Tensor:
    """The tensor with the columns of these axes, each the tokens of a stack, as the user's."""
    for dim, stack in dims.items():
        # A stack may hold several streams; the last one takes the remaining columns.
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
