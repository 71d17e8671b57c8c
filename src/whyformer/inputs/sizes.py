"""How large each input is before anything is prepared, so that like can be batched with like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from torch import Tensor

from whyformer.inputs.detect import is_text_image_pair, is_text_pair
from whyformer.inputs.text import tokenizer_scope

TEXT, PAIR, BOTH, IMAGE, ALONE = "text", "text pair", "text+image", "image", "alone"


@dataclass(frozen=True)
class Size:
    """What an input is, and its number of tokens; only inputs of one kind share a batch."""

    kind: str
    tokens: int = 1

    @property
    def is_text(self) -> bool:
        """Whether it is text and nothing else."""
        return self.kind in (TEXT, PAIR)


def input_sizes(items: Sequence[Any], tokenizer: Any | None, stream: str) -> list[Size]:
    """The size of each input; what cannot be read has one too, and is refused where it is read.

    Images are all alike here. Tensors and mappings of arguments are batches of their own.
    """
    kinds = [_kind(item, stream) for item in items]
    said = [_text_of(item, kind) for item, kind in zip(items, kinds, strict=True)]
    lengths = _lengths([text for text in said if text], tokenizer)
    return [
        Size(kind, next(lengths) if text else 1) for kind, text in zip(kinds, said, strict=True)
    ]


def _kind(item: Any, stream: str) -> str:
    if isinstance(item, str) and stream != "image":
        return TEXT
    if isinstance(item, Tensor | numpy.ndarray):
        return ALONE
    if is_text_image_pair(item):
        return BOTH
    if isinstance(item, Mapping):
        return ALONE
    return PAIR if is_text_pair(item) else IMAGE


def _text_of(item: Any, kind: str) -> str:
    """The text of an input, the two of a pair in one."""
    if kind == TEXT:
        return str(item)
    if kind == PAIR:
        return " ".join(item)
    if kind == BOTH:
        parts = item.values() if isinstance(item, Mapping) else item
        return next((part for part in parts if isinstance(part, str)), "")
    return ""


def _lengths(texts: list[str], tokenizer: Any | None) -> Any:
    """The number of tokens of each text, as an iterator; of characters without a tokenizer."""
    if tokenizer is None or not texts:
        return iter(map(len, texts))
    whole = [text if text.isascii() else text.encode(errors="replace").decode() for text in texts]
    with tokenizer_scope(tokenizer):
        rows = tokenizer(whole, truncation=False, padding=False)["input_ids"]
    return iter(map(len, rows))
