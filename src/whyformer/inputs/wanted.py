"""What a user may ask about, apart from a class: as data, until the model has answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
