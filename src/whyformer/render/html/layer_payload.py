"""The attention maps of one sample, if they were kept, packed for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from whyformer.attribution import Attribution, Layer, Stream
from whyformer.render.html.packing import LEVELS, Room, block, room
from whyformer.render.html.palette import script_palette
from whyformer.render.panels import direction
from whyformer.render.signs import visible

BUDGET = 3_200_000  # bytes of all maps in a page, before base64
ATTENTION, WEIGHTED = "attention", "attention x gradient"


@dataclass(frozen=True)
class StackPart:
    """Neighbouring columns of a stack: the tokens of one stream, or tokens of no stream."""

    name: str
    columns: tuple[int, ...]  # in the stack, without padding
    tokens: tuple[str, ...] = ()
    special: tuple[int, ...] = ()  # tokens that the tokenizer or the model added
    grid: tuple[int, int] | None = None
    deciding: tuple[int, ...] | None = None  # where the head reads the answer, if known

    @property
    def words(self) -> list[str]:
        """The tokens that are not special."""
        return [token for i, token in enumerate(self.tokens) if i not in self.special]


@dataclass(frozen=True)
class TokenStack:
    """One sequence of queries or keys."""

    name: str
    parts: tuple[StackPart, ...]

    @cached_property
    def columns(self) -> Tensor:
        """The columns of its tokens, (tokens,)."""
        return torch.tensor([c for part in self.parts for c in part.columns], dtype=torch.long)

    @property
    def deciding(self) -> list[int]:
        """Where the head reads the answer, counted without padding; empty if not known."""
        known = [part.deciding for part in self.parts if part.deciding is not None]
        if not known:
            return []
        found, start, loose = [], 0, []
        for part in self.parts:
            inside = part.deciding
            found += [start + i for i in inside or ()]
            loose += [start + i for i in range(len(part.columns))] if inside is None else []
            start += len(part.columns)
        # A deciding token that belongs to no stream is the class token, the first of those.
        return found or loose[:1]


def layer_payload(
    attribution: Attribution, index: int, panels: Sequence[str], budget: int = BUDGET
) -> dict[str, Any] | None:
    """Return what a page needs to show any row of any head, or None if no attention was kept.

    Args:
        attribution: An attribution with `layers`.
        index: The sample.
        panels: The names of the page's panels, in order.
        budget: The number of bytes that the maps may take.
    """
    found = [
        (number, layer, asking, answering)
        for number, layer in enumerate(attribution.layers, start=1)
        if layer.attention is not None
        and (asking := _stack(attribution, index, layer.asking, layer.attention.shape[2]))
        and (answering := _stack(attribution, index, layer.answering, layer.attention.shape[3]))
        and len(layer.attention) == len(attribution)
    ]
    if not found:
        return None
    weighted = all(layer.gradient is not None for _, layer, _, _ in found)
    kinds = [ATTENTION, WEIGHTED] if weighted else [ATTENTION]
    sizes = [
        (layer.attention.shape[1], len(asking.columns), len(answering.columns))
        for _, layer, asking, answering in found
        if layer.attention is not None
    ]
    fits = room(sizes * len(kinds), budget)
    stacks = {stack.name: stack for _, _, *both in found for stack in both}
    return {
        "ink": script_palette(),
        "levels": LEVELS,
        "kinds": kinds,
        "stacks": {name: _stack_payload(stack, panels) for name, stack in stacks.items()},
        "layers": [
            {
                "number": number,
                "asking": asking.name,
                "answering": answering.name,
                "heads": int(layer.attention.shape[1]) if layer.attention is not None else 0,
                "maps": [_map(layer, index, kind, asking, answering, fits) for kind in kinds],
            }
            for number, layer, asking, answering in found
        ],
        "note": _note(fits, sizes, len(attribution.layers) - len(found)),
    }


def _map(
    layer: Layer,
    index: int,
    kind: str,
    asking: TokenStack,
    answering: TokenStack,
    fits: Room | None,
) -> dict[str, Any]:
    """The rows of one layer: at the deciding tokens, of the heads' mean, and of every head."""
    assert layer.attention is not None
    values = layer.attention[index].float()
    if kind == WEIGHTED and layer.gradient is not None:
        values = values * layer.gradient[index].float()
    values = values[:, asking.columns][:, :, answering.columns]
    columns = values.shape[2]
    mean = values.mean(0, keepdim=True)
    both = torch.cat([mean, values])
    start = both[:, asking.deciding or slice(None)].mean(1)
    return {
        "start": block(start, columns),
        "mean": block(mean.flatten(0, 1), min(columns, fits.mean) if fits else columns),
        "heads": block(values.flatten(0, 1), min(columns, fits.heads) if fits else columns),
    }


# -- which columns belong to which stream ----------------------------------------------------


def _stack(attribution: Attribution, index: int, name: str, size: int) -> TokenStack | None:
    """The stack with its columns in order, or None if they cannot be assigned to streams.

    A stack is named by its streams, in order. Columns of no stream, such as a class token, come
    right before an image's patches.
    """
    streams = [attribution.streams.get(part) for part in name.split("+")]
    known = [stream for stream in streams if stream is not None]
    if len(known) < len(streams):
        whole = tuple(range(size))
        tokens = tuple(f"{visible(name)} {i}" for i in whole)
        return TokenStack(name, (StackPart(name, whole, tokens),))
    spare = size - sum(stream.scores.shape[1] for stream in known)
    before = next((s.name for s in known if s.grid is not None or s.image is not None), None)
    if spare < 0 or (spare and before is None):
        return None
    parts, column = [], 0
    for stream in known:
        if spare and stream.name == before:
            names = (
                ("class token",) if spare == 1 else tuple(f"added {i + 1}" for i in range(spare))
            )
            loose = tuple(range(column, column + spare))
            parts.append(StackPart(stream.name, loose, names, special=tuple(range(spare))))
            column += spare
        parts.append(_part(stream, index, column))
        column += stream.scores.shape[1]
    return TokenStack(name, tuple(parts))


def _part(stream: Stream, index: int, start: int) -> StackPart:
    inner = stream.columns(index).tolist()
    one = stream.sample(index)
    read = one.deciding
    deciding = None if read is None else tuple(read[0].nonzero().flatten().tolist())
    columns = tuple(start + i for i in inner)
    if stream.grid is not None and stream.grid[0] * stream.grid[1] == len(columns):
        return StackPart(stream.name, columns, grid=stream.grid, deciding=deciding)
    tokens = one.tokens[0] if one.tokens else tuple(map(str, range(len(columns))))
    words = one.word_ids[0] if one.word_ids else tuple(range(len(columns)))
    special = tuple(i for i, word in enumerate(words) if word is None)
    return StackPart(stream.name, columns, tuple(map(visible, tokens)), special, deciding=deciding)


def _stack_payload(stack: TokenStack, panels: Sequence[str]) -> dict[str, Any]:
    return {
        "deciding": stack.deciding,
        "parts": [
            {"name": part.name, "panel": panels.index(part.name), "grid": list(part.grid)}
            if part.grid
            else {
                "name": part.name,
                "tokens": part.tokens,
                "special": part.special,
                "direction": direction("".join(part.words)),
            }
            for part in stack.parts
        ],
    }


def _note(fits: Room | None, sizes: Sequence[tuple[int, int, int]], left_out: int) -> str:
    """The note about rounding and about what was left out."""
    notes = [f"Numbers are rounded to {LEVELS} steps of the largest in their row."]
    columns = max(columns for _, _, columns in sizes)
    if fits is not None:
        notes.append(
            f"To keep the page small, rows of one head have only their {min(fits.heads, columns)}"
            f" strongest of {columns} numbers, and rows of the mean their"
            f" {min(fits.mean, columns)} strongest; the others are shown as 0. The first row is"
            " complete."
        )
    if left_out:
        notes.append(f"{left_out} layers are not shown: their attention is not token by token.")
    return " ".join(notes)
