"""Everything the model's forward takes, and what the explanation needs to know beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from whyformer.inputs.padding_layout import Layout

Tokens = tuple[tuple[str, ...], ...]
WordIds = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class Batch:
    """One batch, ready to run; token axes as the model sees them, padding behind.

    Everything but the arguments is about one stream, the main one; `others` are the rest.
    """

    arguments: Mapping[str, Any]  # exactly what forward takes, on the module's device
    baseline_arguments: Mapping[str, Any]  # the same with nothing said in it
    carrier: str  # the argument that carries the tokens or pixels
    size: int  # samples
    stream: str  # text, image, audio or tokens
    content: tuple[bytes, ...]  # identifies a sample, whatever its padding and company
    mask: Tensor | None = None  # (batch, tokens), False at padding
    tokens: Tokens | None = None
    word_ids: WordIds | None = None
    grid: tuple[int, int] | None = None  # (rows, columns) of an image's patches
    image: Tensor | None = None  # (batch, 3, height, width) in 0..1: the pixels the model saw
    tokenizer: Any | None = None
    layout: Layout | None = None  # where the user's columns are, if padding had to be moved
    pixel_mask: Tensor | None = None  # (batch, height, width), 0 at an image's padding
    notes: tuple[str, ...] = ()  # what was done that the user should know
    others: Mapping[str, Batch] = field(default_factory=dict)  # the other streams, by name

    def __iter__(self) -> Iterator[Batch]:
        """Every stream of the inputs, the main one first."""
        return iter((self, *self.others.values()))

    def of(self, stream: str) -> Batch | None:
        """What the inputs say about a stream; None where it does not come from them."""
        return self if stream == self.stream else self.others.get(stream)

    @property
    def is_image(self) -> bool:
        """Whether the tokens are parts of an image, before which a class token may stand."""
        return self.grid is not None or self.image is not None

    @property
    def count(self) -> int | None:
        """How many tokens the stream has, where that can be known before the model runs."""
        if self.mask is not None:
            return self.mask.shape[1]
        return None if self.grid is None else self.grid[0] * self.grid[1]
