"""JSON values that resemble a given one, from hypothesis.

The seeded mutator changes one entry. These values have the right structure in most places and
wrong types, lengths and numbers in several: they pass the first checks and reach the later ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

BYTES = 4096  # that one value is drawn from
Strategy = st.SearchStrategy[Any]

SCALARS: Strategy = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)
)
ANY_JSON: Strategy = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


def json_like(value: Any) -> Strategy:
    """Return a strategy for JSON values with about the structure of `value`."""
    return st.one_of(st.just(value), st.just(value), _resembling(value), ANY_JSON)


def _resembling(value: Any) -> Strategy:
    if isinstance(value, dict):
        known = {name: json_like(one) for name, one in value.items()}
        whole: Strategy = st.fixed_dictionaries(known)
        return whole | st.fixed_dictionaries({}, optional=known)
    if isinstance(value, list):
        if not value:
            return st.lists(SCALARS, max_size=3)
        same: Strategy = st.tuples(*map(json_like, value[:20])).map(list)
        return same | st.lists(json_like(value[0]), max_size=len(value) + 1)
    if isinstance(value, bool) or value is None:
        return SCALARS
    if isinstance(value, int):
        return st.integers(-3, 3) | st.integers() | st.floats()
    if isinstance(value, float):
        return st.floats() | st.integers()
    return st.text(max_size=20)


def drawing(strategy: Strategy) -> Callable[[random.Random], Any]:
    """Return a function that draws one value; None if the random bytes do not make one."""
    drawn: list[Any] = []

    @settings(database=None, deadline=None, suppress_health_check=[*HealthCheck])
    @given(strategy)
    def keep(value: Any) -> None:
        drawn.append(value)

    def draw_one(draw: random.Random) -> Any:
        drawn.clear()
        keep.hypothesis.fuzz_one_input(draw.randbytes(BYTES))  # type: ignore[attr-defined]
        return drawn[0] if drawn else None

    return draw_one
