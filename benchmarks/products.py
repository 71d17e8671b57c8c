"""Products of float32 matrices by torch's usual library and by oneDNN, in one run.

    python benchmarks/products.py [--threads 1] [--json FILE]

The backward pass of a linear layer multiplies the gradients of its tokens, (tokens, out), with its
weight, (out, in). A figure is how many times as long torch's own product takes; both are the best
of several rounds, over weights that together are larger than the processor's caches hold. The
library prefers oneDNN on processors where most figures from 8 tokens on are above 1 (see
`engine/rules/operations/matrix_product.py`).
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import turns
from report import finish
from whyformer.engine.rules.operations.matrix_product import multiply_by_onednn, prefers_onednn

WEIGHTS = ((384, 384), (1536, 384), (384, 1536), (768, 768), (3072, 768), (768, 3072), (4096, 4096))
TOKENS = (1, 4, 8, 12, 32, 128, 512, 2048)
NUMBERS = 40_000_000  # in all weights of one round
OPERATIONS = 3e9  # multiplications that one figure may take, at least three rounds


def ratio(tokens: int, out: int, into: int) -> float:
    """Time of torch's own product over that of oneDNN."""
    weights = [torch.randn(out, into) for _ in range(max(1, min(16, NUMBERS // (out * into))))]
    gradient = torch.randn(tokens, out)
    rounds = max(3, min(60, int(OPERATIONS / (tokens * out * into * len(weights)))))

    def run(product: object) -> None:
        for weight in weights:
            product(gradient, weight)  # type: ignore[operator]

    work = {"torch": partial(run, torch.matmul), "onednn": partial(run, multiply_by_onednn)}
    for job in work.values():
        job()
    best = turns.best(work, rounds, time.perf_counter)
    return best["torch"] / best["onednn"]


def largest_difference() -> float:
    """The largest difference of the two products, over the sum of the sizes of its terms."""
    gradient, weight = torch.randn(512, 3072), torch.randn(3072, 768)
    found: Tensor = multiply_by_onednn(gradient, weight) - gradient @ weight
    return float((found.abs() / (gradient.abs() @ weight.abs())).max())


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    preferred = prefers_onednn(torch.ones(8, 8), torch.ones(8, 8))
    print(f"whyformer prefers {'oneDNN' if preferred else 'torch as it is'} on this processor")
    print("weight      " + "".join(f"{tokens:>8}" for tokens in TOKENS) + "  tokens")
    ratios: dict[str, dict[int, float]] = {}
    for out, into in WEIGHTS:
        row = ratios[f"{out} x {into}"] = {}
        print(f"{out:>5} x {into:<5}", end="")
        for tokens in TOKENS:
            row[tokens] = ratio(tokens, out, into)
            print(f"{row[tokens]:7.2f}x", end="", flush=True)
        print()
    difference = largest_difference()
    print(f"largest difference: {difference:.1e} of the terms")
    results = {
        "threads": options.threads,
        "preferred": preferred,
        "ratios": ratios,
        "difference": difference,
    }
    return finish(results, [], options.json)


if __name__ == "__main__":
    raise SystemExit(main())
