"""Maximum flows against networkx and igraph, and against the cuts that prove them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyformer.maximum_flow import solver as module
from whyformer.maximum_flow.residual import Edges
from whyformer.maximum_flow.solver import Flows, maximum_flows

Draw = np.random.Generator


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(1, keepdims=True))
    found: np.ndarray = weights / weights.sum(1, keepdims=True)
    return found


def masked(draw: Draw, n: int, barred: np.ndarray) -> np.ndarray:
    """Softmax of random scores, exactly 0 where barred; never from a token to itself."""
    barred = barred & ~np.eye(n, dtype=bool)
    return softmax(np.where(barred, -np.inf, draw.normal(size=(n, n))))


KINDS: dict[str, Callable[[Draw, int], np.ndarray]] = {
    "softmax": lambda draw, n: softmax(draw.normal(size=(n, n))),
    "peaked": lambda draw, n: softmax(6 * draw.normal(size=(n, n))),
    "all but one-hot": lambda draw, n: softmax(30 * draw.normal(size=(n, n))),
    "single precision": lambda draw, n: softmax(4 * draw.normal(size=(n, n))).astype(np.float32),
    "causal": lambda draw, n: masked(draw, n, np.triu(np.ones((n, n), dtype=bool), 1)),
    "anti-causal": lambda draw, n: masked(draw, n, np.tril(np.ones((n, n), dtype=bool), -1)),
    "sparse": lambda draw, n: masked(draw, n, draw.random((n, n)) < 0.8),
    "local": lambda draw, n: softmax(-np.abs(np.subtract.outer(np.arange(n), np.arange(n))) * 2.0),
    "a token that all look at": lambda draw, n: softmax(
        draw.normal(size=(n, n)) + 6.0 * (np.arange(n) == n - 1)
    ),
    "uniform": lambda draw, n: np.full((n, n), 1 / n),
    "ties": lambda draw, n: draw.integers(1, 3, size=(n, n)) / 4 / n,
    "one-hot": lambda draw, n: np.eye(n)[draw.integers(0, n, n)],
    "permutation": lambda draw, n: np.eye(n)[draw.permutation(n)],
    "nothing but the skip": lambda draw, n: np.zeros((n, n)),
}


def layers(kind: str, seed: int, depth: int, n: int) -> list[Edges]:
    """Attention with the skip connection, each row adding up to 1, from the bottom up."""
    draw = np.random.default_rng(seed)
    mixed = [KINDS[kind](draw, n).astype(float) + np.eye(n) for _ in range(depth)]
    return [Edges(i + 1, i, m / m.sum(1, keepdims=True)) for i, m in enumerate(mixed)]


def by_networkx(edges: Sequence[Edges], source: tuple[int, int], sink: tuple[int, int]) -> float:
    graph = networkx.DiGraph()
    graph.add_nodes_from([source, sink])
    for one in edges:
        for (i, j), capacity in np.ndenumerate(one.capacity):
            if capacity:
                graph.add_edge((one.above, i), (one.below, j), capacity=float(capacity))
    found: float = networkx.maximum_flow_value(graph, source, sink)
    return found


def assert_proven(flows: Flows) -> None:
    np.testing.assert_allclose(flows.value, flows.cut, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**16), depth=st.integers(1, 4), n=st.integers(1, 7), at=st.floats(0, 1))
@settings(max_examples=12, deadline=None)
def test_equals_networkx(kind: str, seed: int, depth: int, n: int, at: float) -> None:
    edges, source = layers(kind, seed, depth, n), (depth, round(at * (n - 1)))
    flows = maximum_flows(edges, source, 0, np.arange(n))
    expected = [by_networkx(edges, source, (0, sink)) for sink in range(n)]
    np.testing.assert_allclose(flows.value, expected, rtol=0, atol=1e-12)
    assert_proven(flows)


@given(seed=st.integers(0, 2**16), batch=st.sampled_from([1, 100, 10**6]))
@settings(max_examples=40, deadline=None)
def test_streams_of_which_one_rests(seed: int, batch: int) -> None:
    """Two streams: one layer within each, then the first asks the second twice, which stays."""
    draw = np.random.default_rng(seed)
    a, b = draw.integers(1, 6, 2).tolist()
    bottom_a, bottom_b, within_a, within_b, once, twice = range(6)

    def random(rows: int, columns: int) -> np.ndarray:
        found = draw.random((rows, columns)) ** 4
        return found * (draw.random((rows, columns)) < 0.7)

    edges = [
        Edges(within_a, bottom_a, random(a, a)),
        Edges(within_b, bottom_b, random(b, b)),
        Edges(once, within_a, np.diag(draw.random(a))),
        Edges(once, within_b, random(a, b)),
        Edges(twice, once, np.diag(draw.random(a))),
        Edges(twice, within_b, random(a, b)),
    ]
    source = (twice, int(draw.integers(a)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BATCH", batch)
        for group, size in ((bottom_a, a), (bottom_b, b)):
            flows = maximum_flows(edges, source, group, np.arange(size))
            expected = [by_networkx(edges, source, (group, sink)) for sink in range(size)]
            np.testing.assert_allclose(flows.value, expected, rtol=0, atol=1e-12)
            assert_proven(flows)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_igraph(kind: str) -> None:
    igraph = pytest.importorskip("igraph", reason="igraph is GPL: an extra, for this check only")
    n, depth = 40, 5
    edges, source = layers(kind, 1, depth, n), (n // 2 if "causal" in kind else 3)
    ends, capacities = [], []
    for one in edges:
        rows, columns = np.nonzero(one.capacity)
        ends.append(np.stack([one.above * n + rows, one.below * n + columns], 1))
        capacities.append(one.capacity[rows, columns])
    graph = igraph.Graph(n=n * (depth + 1), edges=np.concatenate(ends), directed=True)
    sinks, capacity = np.arange(0, n, 6), np.concatenate(capacities).tolist()
    expected = [graph.maxflow_value(depth * n + source, int(sink), capacity) for sink in sinks]
    flows = maximum_flows(edges, (depth, source), 0, sinks)
    np.testing.assert_allclose(flows.value, expected, rtol=0, atol=1e-11)
    assert_proven(flows)


@pytest.mark.parametrize("kind", KINDS)
def test_the_batch_changes_nothing(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    edges, found = layers(kind, 2, 4, 12), []
    for batch in (1, 500, 10**9):
        monkeypatch.setattr(module, "BATCH", batch)
        found.append(maximum_flows(edges, (4, 5), 0, np.arange(12)).value)
    np.testing.assert_allclose(found[1:], found[:1] * 2, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_more_capacity_never_means_less_flow(kind: str) -> None:
    edges = layers(kind, 3, 3, 9)
    wider = [Edges(e.above, e.below, e.capacity + 0.05 * (i == 1)) for i, e in enumerate(edges)]
    less, more = (maximum_flows(e, (3, 4), 0, np.arange(9)).value for e in (edges, wider))
    assert (more >= less - 1e-12).all()
    assert (less <= 1 + 1e-12).all()  # a token passes on no more than it is made of
    assert (less <= edges[0].capacity.sum(0) + 1e-12).all()


def test_by_hand() -> None:
    """0.5 through one neck and 0.25 through the other."""
    top = Edges(2, 1, np.array([[0.5, 0.5], [0.0, 1.0]]))
    bottom = Edges(1, 0, np.array([[1.0, 0.0], [0.25, 0.75]]))
    first = maximum_flows([bottom, top], (2, 0), 0, np.arange(2))
    second = maximum_flows([bottom, top], (2, 1), 0, np.arange(2))
    np.testing.assert_allclose(first.value, [0.75, 0.5], atol=1e-15)
    np.testing.assert_allclose(second.value, [0.25, 0.75], atol=1e-15)


def test_what_came_down_the_wrong_way_goes_back_up() -> None:
    """The split that looks best at first is wrong.

    From the source 0.5 to each of two nodes; the left one could fill either of the two below, the
    right one only the first of them, and each of these lets 0.5 through to the sink.
    """
    top = Edges(3, 2, np.array([[0.5, 0.5]]))
    middle = Edges(2, 1, np.array([[0.5, 0.5], [0.5, 0.0]]))
    bottom = Edges(1, 0, np.array([[0.5], [0.5]]))
    flows = maximum_flows([bottom, middle, top], (3, 0), 0, np.array([0]))
    np.testing.assert_allclose([*flows.value, *flows.cut], [1, 1], atol=1e-14)


def test_a_sink_that_nothing_leads_to() -> None:
    edges = [Edges(1, 0, np.array([[0.0, 1.0], [1.0, 0.0]])), Edges(3, 2, np.ones((2, 2)))]
    assert maximum_flows(edges, (1, 0), 0, np.arange(2)).value.tolist() == [0, 1]
    assert maximum_flows(edges, (1, 0), 2, np.arange(2)).value.tolist() == [0, 0]
    assert maximum_flows(edges, (3, 0), 0, np.arange(2)).value.tolist() == [0, 0]


def test_capacities_that_are_next_to_nothing_count() -> None:
    edges = [Edges(1, 0, np.full((100, 1), 1e-9)), Edges(2, 1, np.full((1, 100), 0.01))]
    flows = maximum_flows(edges, (2, 0), 0, np.array([0]))
    np.testing.assert_allclose(flows.value, [1e-7], rtol=0, atol=1e-12)
