"""What each shortcut of the rules gives a user: `explain` with it and without it, in one process.

    python benchmarks/rule_tricks.py [--rounds 9] [--tokens 128] [--json FILE] [--methods a,b,...]

Every round times every method with every variant in turn, so that a noisy machine disturbs all
alike. `gain` is 1 - median CPU time with the shortcut / median CPU time without it; `gain_wall` is
the same by the clock. One thread; random weights of BERT-base shape.

| shortcut | what it does |
|---|---|
| magnitudes | keeps the absolute values of the weights from call to call |
| blocked_matmul | multiplies by a weight in blocks of rows, where its rows are whole pages apart |
| quick | uses blocked_matmul for the gradient of linear layers outside the relevance rules |
| scratch | uses the same memory again for intermediate tensors of the relevance rules |

`magnitudes` is measured with all others on; the others are measured without `magnitudes`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
import torch.nn.functional as F

import whyformer as wf
from report import ended
from subjects import bert
from whyformer.engine.rules import blocked_matmul, quick, scratch
from whyformer.engine.rules.relevance import contractions

METHODS = "transformer_attribution,full_lrp,partial_lrp,lrp_ah_ln,gae"
LEAST = 0.10  # a shortcut that gives less than this is deleted


@contextmanager
def no_magnitudes() -> Iterator[None]:
    def plain(rows: Any, w: Any, bias: Any, room: Any = None) -> tuple[Any, None]:
        return F.linear(rows, w, bias), None

    with mock.patch.object(contractions, "stamped", plain):
        yield


@contextmanager
def no_blocked_matmul() -> Iterator[None]:
    with mock.patch.object(blocked_matmul, "pays", lambda rows, w: False):
        yield


@contextmanager
def no_quick() -> Iterator[None]:
    with mock.patch.object(quick, "_is_quicker", lambda x, w: False):
        yield


@contextmanager
def no_scratch() -> Iterator[None]:
    def room(self: Any, *wanted: Any) -> Any:
        return scratch.fresh(*wanted)

    with mock.patch.object(scratch.Scratch, "room", room):
        yield


VARIANTS: dict[str, tuple[Callable[[], Any], ...]] = {
    "all": (),
    "no magnitudes": (no_magnitudes,),
    "no magnitudes, no blocked_matmul": (no_magnitudes, no_blocked_matmul),
    "no magnitudes, no quick": (no_magnitudes, no_quick),
    "no magnitudes, no scratch": (no_magnitudes, no_scratch),
    "none": (no_magnitudes, no_blocked_matmul, no_quick, no_scratch),
}
# shortcut: (variant with it, variant without it)
PAIRS = {
    "magnitudes": ("all", "no magnitudes"),
    "blocked_matmul": ("no magnitudes", "no magnitudes, no blocked_matmul"),
    "quick": ("no magnitudes", "no magnitudes, no quick"),
    "scratch": ("no magnitudes", "no magnitudes, no scratch"),
    "all but magnitudes": ("no magnitudes", "none"),
    "all": ("all", "none"),
}


def measure(tokens: int, methods: list[str], rounds: int) -> dict[tuple[str, str], list[Any]]:
    """(CPU seconds, clock seconds) of each round, by method and variant."""
    subject = bert(tokens)
    found: dict[tuple[str, str], list[Any]] = {}
    for turn in range(-2, rounds):
        for method in methods:
            for name, changes in VARIANTS.items():
                with ExitStack() as stack:
                    for change in changes:
                        stack.enter_context(change())
                    start = time.process_time(), time.perf_counter()
                    wf.explain(subject.inputs, subject.model, method=method, target=0)
                    end = time.process_time(), time.perf_counter()
                if turn >= 0:
                    spent = tuple(b - a for a, b in zip(start, end, strict=True))
                    found.setdefault((method, name), []).append(spent)
        print(".", end="", flush=True)
    print()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--methods", default=METHODS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    methods = options.methods.split(",")
    found = measure(options.tokens, methods, options.rounds)
    seconds = {
        method: {
            name: {
                "cpu": statistics.median(cpu for cpu, _ in found[method, name]),
                "wall": statistics.median(wall for _, wall in found[method, name]),
            }
            for name in VARIANTS
        }
        for method in methods
    }
    gains: dict[str, Any] = {}
    for trick, (having, lacking) in PAIRS.items():
        print(f"\n{trick}")
        for method in methods:
            of = seconds[method]
            gain = {clock: 1 - of[having][clock] / of[lacking][clock] for clock in ("cpu", "wall")}
            # Round by round: what a neighbour on the machine takes falls on both alike.
            pairs = zip(found[method, having], found[method, lacking], strict=True)
            gain["by_round"] = 1 - statistics.median(a[0] / b[0] for a, b in pairs)
            gains.setdefault(trick, {})[method] = gain
            print(
                f"  {method:26s} {of[lacking]['cpu'] * 1e3:7.1f} -> {of[having]['cpu'] * 1e3:7.1f}"
                f" ms   cpu {gain['cpu']:+.1%}  wall {gain['wall']:+.1%}"
                f"  by round {gain['by_round']:+.1%}"
            )
    results = {
        "tokens": options.tokens,
        "rounds": options.rounds,
        "threads": 1,
        "torch": torch.__version__,
        "seconds": seconds,
        "gains": gains,
    }
    return ended(results, [], options.json)


if __name__ == "__main__":
    raise SystemExit(main())
