"""Targets other than a class, as data: contrast, object query, token, span."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whyformer.errors import TargetError


@dataclass(frozen=True)
class Contrast:
    """The score of `chosen` minus the score of `other`."""

    chosen: Any
    other: Any


@dataclass(frozen=True)
class Query:
    """A class at one object query of a detector."""

    index: int
    label: int | str | None = None


@dataclass(frozen=True)
class Token:
    """The output at one token: the next token, the masked token, or the token's class."""

    position: int | str  # or the text at that position
    token: int | str | None = None
    occurrence: int | None = field(default=None, repr=False)  # if the text is there several times


@dataclass(frozen=True)
class Span:
    """An answer from one token to another, both included; or the text of the answer."""

    start: int | str
    end: int | None = None  # None if `start` is text
    occurrence: int | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Answer:
    """One answer of a language model per sample: its token ids, without prompt and padding."""

    rows: tuple[tuple[int, ...], ...]


def at_query(index: int | None, target: Any) -> Any:
    """Return the target at an object query; the target itself if `index` is None."""
    if index is None:
        return target
    if isinstance(target, Contrast):
        return Contrast(Query(index, target.chosen), Query(index, target.other))
    return Query(index, target)


def parse_target(text: str) -> int | str | Contrast:
    """Return the class index, label, text, or contrast `a>b` that the text names.

    Spaces count: " Berlin" and "Berlin" are different tokens. Only those around ` > ` do not.
    """
    chosen, versus, other = text.partition(" > " if " > " in text else ">")
    if not versus:
        return _index_or_label(text)
    if not chosen.strip() or not other.strip():
        raise TargetError(
            f"the target {text!r} lacks a side; expected 'a>b', for why a rather than b",
            argument="target",
            remedy="Name both sides",
        )
    return Contrast(_index_or_label(chosen), _index_or_label(other))


def _index_or_label(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text
