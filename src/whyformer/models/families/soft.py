"""Soft tokens: what an encoder computes from an image or a sound, at placeholders in a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Panel:
    """Some of the tokens of an image, as one picture.

    Attributes:
        cells: (rows, columns) of an image, or (tokens,) of a line: for each place the number of
            the token among those of the image; -1 where there is none.
        pixels: (3, height, width) that the panel covers, as the model reads them, if known.
        name: What tells it from the other panels of the image, such as "overview".
    """

    cells: Tensor
    pixels: Tensor | None = None
    name: str = ""

    @property
    def grid(self) -> tuple[int, int] | None:
        """(rows, columns) of the cells; None if they are a line."""
        return (self.cells.shape[0], self.cells.shape[1]) if self.cells.ndim == 2 else None


@dataclass(frozen=True)
class Item:
    """One image or sound of a prompt.

    Attributes:
        count: Its soft tokens. Some may be in no panel, such as ends of lines.
        panels: How its tokens are shown.
        entries: How many entries of an argument are its own, for arguments whose first axis does
            not count samples.
    """

    count: int
    panels: tuple[Panel, ...]
    entries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Tower:
    """The encoder below the soft tokens of images, as data of a family.

    Attributes:
        blocks: Path of its blocks; the states that enter the first one are those of patches, image
            after image.
        items: The images as in `Soft.items`, with states of the tower in place of soft tokens.
    """

    blocks: str
    items: Callable[[Any, Mapping[str, Any]], list[Item]]


@dataclass(frozen=True)
class Soft:
    """The soft tokens of one stream, as data of a family."""

    stream: str  # image, video or audio
    carrier: str  # the argument that the encoder reads
    # The images of all samples in order, from the config and the arguments of forward.
    items: Callable[[Any, Mapping[str, Any]], list[Item]]
    placeholder: str = "image_token_id"  # the config's setting of the id that stands for a token
    marks: str = ""  # the argument that marks the tokens, if no id stands for them
    # The argument that tells the kinds of tokens apart, and the number of this one there.
    kinds: str = ""
    kind: int = 1
    needs_kinds: bool = True  # forward fails without them
    tiled: bool = False  # items of one run of placeholders are tiles of one image
    # Tiles say their place in the text before them, as <row_1_col_2> or <global-img>.
    named_tiles: bool = False
    # Arguments of one image per sample for a tiny model: (config, samples, generator).
    tiny: Callable[[Any, int, torch.Generator], dict[str, Tensor]] | None = None
    tower: Tower | None = None  # relevance can go on through it, to patches

    def columns(self, config: Any, arguments: Mapping[str, Any]) -> Tensor:
        """Return where its tokens are in the text, (batch, tokens)."""
        if self.marks:
            marks = arguments.get(self.marks)
            ids: Tensor = arguments["input_ids"]
            return marks != 0 if isinstance(marks, Tensor) else torch.zeros_like(ids).bool()
        found: Tensor = arguments["input_ids"] == getattr(config, self.placeholder)
        return found


def line(count: int) -> Tensor:
    """The cells of tokens without a grid, (tokens,)."""
    return torch.arange(count)


def rectangle(rows: int, columns: int, first: int = 0) -> Tensor:
    """The cells of tokens row by row, (rows, columns)."""
    return first + torch.arange(rows * columns).reshape(rows, columns)
