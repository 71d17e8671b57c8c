"""Time of attention flow: the maximum flow from one token to each input token, in one run.

    python benchmarks/flow.py [--shapes 64x12,197x12,512x6] [--kinds softmax,text,...]
                              [--sinks 32] [--json FILE]

A shape is tokens x layers. The graph is that of Abnar and Zuidema 2020: attention averaged over
heads plus the skip connection, each row sums to 1. Kinds are random attention of several
shapes, and `text`: the attention of the bundled sst2 on a text with that many tokens; its six
layers are used twice for twelve. The source is the first token, or the last if attention is causal.

At 64x12 networkx's Edmonds-Karp is timed on the same graph for one input token, for causal kinds
and kinds without zeros. Its time, multiplied by the number of tokens, is compared with ours; the
two flows must agree to 1e-9. In shapes of more than 200 tokens only --sinks input tokens are timed,
evenly spread, and scaled up to all. Every flow comes with a cut of the same capacity, which proves
that none is greater: the largest gap is printed. Time is CPU time of this process in one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import networkx
import numpy as np
import torch
from networkx.algorithms.flow import edmonds_karp

import whyformer as wf
from report import finish
from whyformer.maximum_flow.residual import Edges
from whyformer.maximum_flow.solver import maximum_flows

# By shape: (kinds, most seconds for all input tokens).
SECONDS = {
    "197x12": (("text", "softmax", "peaked", "causal", "sparse", "uniform", "one-hot"), 10.0),
    "512x6": (("text", "softmax"), 60.0),
}
# At this shape, how many times as fast as networkx these kinds (with all edges) must be.
AGAINST, DENSE, TIMES = "64x12", ("text", "softmax", "peaked", "causal"), 500.0
EQUAL = 1e-9


def softmax(scores: np.ndarray) -> np.ndarray:
    """Random attention whose rows sum to 1."""
    weights = np.exp(scores - scores.max(1, keepdims=True))
    found: np.ndarray = weights / weights.sum(1, keepdims=True)
    return found


def barred(draw: np.random.Generator, where: np.ndarray) -> np.ndarray:
    """Random attention that is exactly 0 in some places."""
    return softmax(np.where(where, -np.inf, 2 * draw.normal(size=where.shape)))


def causal(draw: np.random.Generator, n: int) -> np.ndarray:
    """Random attention to the tokens before."""
    return barred(draw, np.triu(np.ones((n, n), dtype=bool), 1))


def sparse(draw: np.random.Generator, n: int) -> np.ndarray:
    """Random attention to one token in twenty, and to itself."""
    return barred(draw, (draw.random((n, n)) < 0.95) & ~np.eye(n, dtype=bool))


RANDOM: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "softmax": lambda draw, n: softmax(draw.normal(size=(n, n))),
    "peaked": lambda draw, n: softmax(6 * draw.normal(size=(n, n))),
    "causal": causal,
    "sparse": sparse,
    "uniform": lambda draw, n: np.full((n, n), 1 / n),
    "one-hot": lambda draw, n: np.eye(n)[draw.integers(0, n, n)],
}


def of_text(n: int, depth: int) -> list[np.ndarray]:
    """Head-averaged attention of the bundled sst2, its layers repeated up to `depth`."""
    words = Path(__file__).parents[1].joinpath("README.md").read_text("utf-8").split()
    low, high = (
        1,
        len(words),
    )  # more words make more tokens: add words until there are at least n tokens
    while low < high:
        middle = (low + high) // 2
        count = wf.explain(" ".join(words[:middle]), method="random", truncation=True)
        low, high = (low, middle) if count.scores.shape[1] >= n else (middle + 1, high)
    text = " ".join(words[:low])
    a = wf.explain(text, method="rollout", keep="attention", truncation=True)
    attention = [layer.attention for layer in a.layers if layer.attention is not None]
    maps = [one[0].double().mean(0).numpy()[:n, :n] for one in attention]
    return [maps[i % len(maps)] for i in range(depth)]


def graph(kind: str, n: int, depth: int) -> list[Edges]:
    """The edges of each layer, from the bottom up."""
    draw = np.random.default_rng(0)
    maps = of_text(n, depth) if kind == "text" else [RANDOM[kind](draw, n) for _ in range(depth)]
    mixed = [attention + np.eye(n) for attention in maps]
    return [Edges(i + 1, i, m / m.sum(1, keepdims=True)) for i, m in enumerate(mixed)]


def by_networkx(edges: list[Edges], source: tuple[int, int], sink: int) -> tuple[float, float]:
    """The flow by Edmonds-Karp and its seconds, without building the graph."""
    made = networkx.DiGraph()
    for one in edges:
        for i, j in np.argwhere(one.capacity).tolist():
            made.add_edge((one.above, i), (one.below, j), capacity=float(one.capacity[i, j]))
    start = time.process_time()
    value = edmonds_karp(made, source, (0, sink)).graph["flow_value"]
    return value, time.process_time() - start


def measure(kind: str, n: int, depth: int, most: int, against: bool) -> dict[str, float]:
    """Seconds for all input tokens, the largest gap, and how networkx compares."""
    edges, source = graph(kind, n, depth), (depth, n - 1 if kind == "causal" else 0)
    sinks = np.arange(n) if n <= 200 else np.linspace(0, n - 1, min(n, most)).astype(int)
    start = time.process_time()
    flows = maximum_flows(edges, source, 0, sinks)
    seconds = (time.process_time() - start) * n / len(sinks)
    found = {"seconds": seconds, "gap": float(abs(flows.cut - flows.value).max())}
    if against:
        sink = n // 2
        value, once = by_networkx(edges, source, sink)
        found["networkx_seconds"] = once * n
        found["times"] = once * n / seconds
        found["difference"] = abs(value - float(flows.value[sink]))
    return found


def wrong(shape: str, kind: str, found: dict[str, float]) -> list[str]:
    """The figures that exceed their limits, one line each."""
    lines = []
    kinds, most = SECONDS.get(shape, ((), 0.0))
    if kind in kinds and found["seconds"] > most:
        lines.append(f"{kind} at {shape}: {found['seconds']:.1f} s > {most:.0f} s")
    if found["gap"] > EQUAL or found.get("difference", 0.0) > EQUAL:
        lines.append(f"{kind} at {shape}: not equal to {EQUAL}")
    if kind in DENSE and found.get("times", TIMES) < TIMES:
        lines.append(f"{kind} at {shape}: {found['times']:.0f} times networkx < {TIMES:.0f}")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shapes", default="64x12,197x12,512x6")
    parser.add_argument("--kinds", default=",".join(["text", *RANDOM]))
    parser.add_argument("--sinks", type=int, default=32)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, Any] = {"shapes": {}}
    exceeded = []
    for shape in options.shapes.split(","):
        n, depth = (int(side) for side in shape.split("x"))
        print(f"\n{n} tokens x {depth} layers, from one token to all inputs")
        results["shapes"][shape] = {}
        for kind in options.kinds.split(","):
            found = measure(kind, n, depth, options.sinks, shape == AGAINST and kind in DENSE)
            results["shapes"][shape][kind] = found
            line = f"  {kind:10s} {found['seconds']:8.2f} s   gap {found['gap']:.0e}"
            if "times" in found:
                line += (
                    f"   networkx {found['networkx_seconds']:8.1f} s, {found['times']:.0f} times"
                )
            print(line, flush=True)
            exceeded += wrong(shape, kind, found)
    return finish(results, exceeded, options.json)


if __name__ == "__main__":
    raise SystemExit(main())
