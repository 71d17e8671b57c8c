"""A surface: one way in which bytes that somebody else made reach whyformer."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Make = Callable[[random.Random, Path], None]
Read = Callable[[Path], None]


class ForeignError(Exception):
    """Something ended in an error that is not whyformer's."""


@dataclass(frozen=True)
class Surface:
    """How a damaged thing is made, and how whyformer reads it.

    Making and reading share nothing but the files of a folder, so that a find can be kept as files
    (tests/fuzz/corpus) and read again.

    Args:
        make: Writes one damaged thing into a folder.
        read: Reads the folder; may raise errors of whyformer and no others.
        weight: How often the surface is tried.
    """

    make: Make
    read: Read
    weight: int
