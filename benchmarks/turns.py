"""Best time of pieces of work that take turns, so that noise hits all alike."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any


def best(
    work: Mapping[str, Callable[[], Any]],
    rounds: int,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Return the fewest seconds of each piece of work over the rounds."""
    found = dict.fromkeys(work, math.inf)
    for _ in range(rounds):
        for name, job in work.items():
            start = clock()
            job()
            found[name] = min(found[name], clock() - start)
    return found
