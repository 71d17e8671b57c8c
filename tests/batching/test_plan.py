"""The planner: no cut of the sorted inputs is cheaper, and no batch is too large."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyformer.batching.plan import plan_batches
from whyformer.batching.split_by_length import MOST_TOKENS


def cost(batches: list[list[int]], lengths: list[int], pass_cost: float) -> float:
    return sum(len(rows) * max(lengths[row] for row in rows) + pass_cost for rows in batches)


def cuts(lengths: list[int]) -> list[list[list[int]]]:
    """Every way to cut the sorted rows into batches."""
    order = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    inner = range(1, len(order))
    places = [(0, *some, len(order)) for n in range(len(order)) for some in combinations(inner, n)]
    return [[order[a:b] for a, b in pairwise(place)] for place in places]


@given(
    st.lists(st.integers(1, 60), min_size=1, max_size=7),
    st.floats(0, 80),
    st.integers(1, 7),
    st.integers(60, 400),
)
def test_no_other_cut_is_cheaper(
    lengths: list[int], pass_cost: float, samples: int, tokens: int
) -> None:
    found = plan_batches(lengths, tokens=tokens, samples=samples, pass_cost=pass_cost)
    assert sorted(row for rows in found for row in rows) == list(range(len(lengths)))

    def fits(rows: list[int]) -> bool:
        return len(rows) <= samples and len(rows) * max(lengths[r] for r in rows) <= tokens

    assert all(map(fits, found))
    allowed = [batches for batches in cuts(lengths) if all(map(fits, batches))]
    least = min(cost(batches, lengths, pass_cost) for batches in allowed)
    assert cost(found, lengths, pass_cost) == pytest.approx(least)


def test_an_input_that_is_too_long_is_alone() -> None:
    found = plan_batches([128] * 100 + [9000], tokens=MOST_TOKENS, pass_cost=1e9)
    assert found[0] == [100]
    assert len(found) == 1 + -(-100 // (MOST_TOKENS // 128))
    assert all(len(rows) * 128 <= MOST_TOKENS for rows in found[1:])


def test_kinds_do_not_share_a_batch() -> None:
    found = plan_batches([3, 3, 3, 3], tokens=100, kinds=["a", "b", "a", "b"], pass_cost=1)
    assert found == [[0, 2], [1, 3]]


def test_nothing_to_plan() -> None:
    assert plan_batches([], tokens=10) == []
