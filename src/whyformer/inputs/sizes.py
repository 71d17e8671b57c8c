"""Kind and token count of each input before it is prepared, to batch similar inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from torch import Tensor

from whyformer.inputs.detect import is_chat, is_text_image_pair, is_text_pair
from whyformer.inputs.tokenizer_scope import tokenizer_scope

TEXT, PAIR, BOTH, IMAGE, ALONE = "text", "text pair", "text+image", "image", "alone"


@dataclass(frozen=True)
class Size:
    """Kind and number of tokens of an input; only inputs of one kind share a batch."""

    kind: str
    tokens: int = 1

    @property
    def is_text(self) -> bool:
        """Whether the input is text only."""
        return self.kind in (TEXT, PAIR)


def input_sizes(items: Sequence[Any], tokenizer: Any | None, stream: str) -> list[Size]:
    """Return the size of each input.

    An image counts as one token. A chat, a tensor or a mapping of arguments is always a batch by
    itself.
    An input that cannot be read gets a size too; `prepare` raises later.
    """
    kinds = [_kind(item, stream) for item in items]
    texts = [_text_of(item, kind) for item, kind in zip(items, kinds, strict=True)]
    lengths = _lengths([text for text in texts if text], tokenizer)
    return [
        Size(kind, next(lengths) if text else 1) for kind, text in zip(kinds, texts, strict=True)
    ]


def _kind(item: Any, stream: str) -> str:
    if isinstance(item, str) and stream != "image":
        return TEXT
    if isinstance(item, Tensor | numpy.ndarray) or is_chat(item):
        return ALONE
    if is_text_image_pair(item):
        return BOTH
    if isinstance(item, Mapping):
        return ALONE
    return PAIR if is_text_pair(item) else IMAGE


def _text_of(item: Any, kind: str) -> str:
    """The text of an input; both texts of a pair in one string."""
    if kind == TEXT:
        return str(item)
    if kind == PAIR:
        return " ".join(item)
    if kind == BOTH:
        parts = item.values() if isinstance(item, Mapping) else item
        return next((part for part in parts if isinstance(part, str)), "")
    return ""


def _lengths(texts: list[str], tokenizer: Any | None) -> Any:
    """Iterate over the numbers of tokens; of characters if there is no tokenizer."""
    if tokenizer is None or not texts:
        return iter(map(len, texts))
    readable = [
        text if text.isascii() else text.encode(errors="replace").decode() for text in texts
    ]
    with tokenizer_scope(tokenizer):
        rows = tokenizer(readable, truncation=False, padding=False)["input_ids"]
    return iter(map(len, rows))
