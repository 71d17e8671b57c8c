"""What a user may ask about, apart from a class: as data, until the model has answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from whyformer.errors import TargetError


@dataclass(frozen=True)
class Contrast:
    """Why `chosen` rather than `other`: the difference of their scores."""

    chosen: Any
    other: Any


@dataclass(frozen=True)
class Query:
    """One object query of a detector, and the class it is asked about."""

    index: int
    label: int | str | None = None


@dataclass(frozen=True)
class Token:
    """What a model says at one token: a next token, a masked token, or the token's class."""

    position: int
    token: int | str | None = None


@dataclass(frozen=True)
class Span:
    """An answer from one token to another, both included."""

    start: int
    end: int


def at_query(index: int | None, wanted: Any) -> Any:
    """What is wanted of an object query, where one is named: a class, a contrast, or the best."""
    if index is None:
        return wanted
    if isinstance(wanted, Contrast):
        return Contrast(Query(index, wanted.chosen), Query(index, wanted.other))
    return Query(index, wanted)


def parse_target(text: str) -> int | str | Contrast:
    """A class index, a label, or a contrast `a>b`, from what somebody typed."""
    chosen, versus, other = text.partition(">")
    if not versus:
        return _index_or_label(text)
    if not chosen.strip() or not other.strip():
        raise TargetError(f"the target {text!r} lacks a side: write 'a>b' for why a rather than b")
    return Contrast(_index_or_label(chosen), _index_or_label(other))


def _index_or_label(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text.strip()
