"""Everything the model's forward takes, and what the explanation needs to know beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from whyformer.inputs.layout import Layout

Tokens = tuple[tuple[str, ...], ...]
WordIds = tuple[tuple[int | None, ...], ...]


@dataclass(frozen=True)
class Prepared:
    """One batch, ready to run; token axes as the model sees them, padding behind."""

    arguments: Mapping[str, Any]  # exactly what forward takes, on the module's device
    baseline_arguments: Mapping[str, Any]  # the same with nothing said in it
    carrier: str  # the argument that carries the tokens or pixels
    batch: int
    stream: str  # text, image, audio or tokens
    content: tuple[bytes, ...]  # identifies a sample, whatever its padding and company
    mask: Tensor | None = None  # (batch, tokens), False at padding
    tokens: Tokens | None = None
    word_ids: WordIds | None = None
    grid: tuple[int, int] | None = None  # (rows, columns) of an image's patches
    image: Tensor | None = None  # (batch, 3, height, width) in 0..1: the pixels the model saw
    tokenizer: Any | None = None
    layout: Layout | None = None  # where the user's columns are, if padding had to be moved
    notes: tuple[str, ...] = ()  # what was done that the user should know
