"""The replay of a scheduler: by hand, and its limits."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.fixture
def scale() -> Any:
    return importlib.import_module("scale")


def test_a_free_worker_takes_the_next_chunk(scale: Any) -> None:
    assert scale.replay([3, 1, 1, 1], 1) == 6
    assert scale.replay([3, 1, 1, 1], 2) == 3
    assert scale.replay([1, 1, 1, 3], 2) == 4  # the long one comes last
    assert scale.replay([3, 1, 1, 1], 64) == 3


def test_one_driver_bounds_the_throughput(scale: Any) -> None:
    """With a second of handling per chunk, no number of workers is faster than one per second."""
    assert scale.replay([10] * 100, 64, handling=1) == 110
    assert scale.replay([1] * 4, 1, handling=0.5) == 6
