"""Errors of the libraries that read files, as ours: on damaged files they raise anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from whyformer.datasets.dataset import DatasetRow, Sample, Spot
from whyformer.errors import InputError, WhyformerError

T = TypeVar("T")

COMPLETE = "Check that the file is complete"


@contextmanager
def reading(file: Path, expected: str, remedy: str = COMPLETE) -> Iterator[None]:
    """Raise InputError for whatever a library raises inside; keep only its calls there."""
    try:
        yield
    except WhyformerError:
        raise
    except Exception as error:
        raise InputError(
            f"{file} is not {expected} ({first_line(error)})", argument="data", remedy=remedy
        ) from error


def rows_until_damage(
    items: Iterator[T], spot: Callable[[int], Spot], row: Callable[[int, T], DatasetRow]
) -> Iterator[DatasetRow]:
    """Yield a row per item; where the library fails, a last row that cannot be read.

    So the rows before the damage are read, and the damage is reported or skipped as one row.

    Args:
        items: What the library reads.
        spot: The place of an item, by its number.
        row: The row of an item, from its number.
    """
    number = 0
    while True:
        try:
            item = next(items)
        except StopIteration:
            return
        except Exception as error:
            yield _damaged_row(spot(number), first_line(error))
            return
        yield row(number, item)
        number += 1


def _damaged_row(spot: Spot, why: str) -> DatasetRow:
    def read() -> Sample:
        raise spot.error(f"the file cannot be read from here on ({why})", "a complete file")

    return DatasetRow(f"damaged/{spot}", spot, read)


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type if it has none."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
