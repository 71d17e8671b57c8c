"""Targets other than a class, as data: contrast, object query, token, span."""

from __future__ import annotations

from dataclasses import dataclass
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

    position: int
    token: int | str | None = None


@dataclass(frozen=True)
class Span:
    """An answer from one token to another, both included."""

    start: int
    end: int


def at_query(index: int | None, target: Any) -> Any:
    """Return the target at an object query; the target itself if `index` is None."""
    if index is None:
        return target
    if isinstance(target, Contrast):
        return Contrast(Query(index, target.chosen), Query(index, target.other))
    return Query(index, target)


def parse_target(text: str) -> int | str | Contrast:
    """Return the class index, label, or contrast `a>b` that the text names."""
    chosen, versus, other = text.partition(">")
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
        return text.strip()
