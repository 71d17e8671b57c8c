"""Throughput of the engines: one worker, two workers, Ray with one; ratios within one run.

    python benchmarks/engines.py --rounds 3 --ray --check

The work is bound by forward passes: sentences of one length, measured by AUAC. Start-up is left
out: the clock of an engine starts with its first finished chunk. `--check` fails if two workers
reach less than 1.7x of one worker's rate, or Ray with one worker less than 0.9x. Run it on an idle
machine with two cores.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from whyformer.batching.progress import Progress
from whyformer.datasets import Sample
from whyformer.evaluation import sample_batches
from whyformer.evaluation.evaluate import RunOptions, run_evaluation
from whyformer.evaluation.plan import Plan, method_specs, metric_specs
from whyformer.models.load import Loaded, load_model
from whyformer.workers import EngineOptions

TWO_WORKERS = 1.7
RAY = 0.9
TEXT = "a gripping and beautifully acted film about two friends who never find their way home"


def rate(loaded: Loaded, samples: list[Sample], options: EngineOptions) -> float:
    """Samples per second after the first chunk of every worker."""
    plan = Plan(method_specs(["libragrad", "gae"]), metric_specs(["auac"]))
    run = RunOptions(report=False, engine=options)
    ticks: list[tuple[float, int]] = []
    with tempfile.TemporaryDirectory() as folder:
        for event in run_evaluation(loaded, samples, plan, folder, run):
            if isinstance(event, Progress) and event.doing == "measuring" and event.done:
                ticks.append((time.perf_counter(), event.done))
    # The first chunks wait for the workers to load, the last ones leave workers idle.
    first, last = ticks[2 * options.workers - 1], ticks[-options.workers]
    return (last[1] - first[1]) / (last[0] - first[0])


def main() -> None:
    """Measure every engine in turns and print the rates and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="sst2")
    parser.add_argument("--samples", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ray", action="store_true", help="measure Ray too")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is too low")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    sample_batches.CHUNK = 4
    loaded = load_model(arguments.model)
    samples = [Sample(f"s{i}", f"{TEXT} {i % 10}") for i in range(arguments.samples)]
    engines = {"one worker": EngineOptions(), "two workers": EngineOptions(workers=2)}
    if arguments.ray:
        engines["ray, one worker"] = EngineOptions("ray", 1)
    rates: dict[str, list[float]] = {name: [] for name in engines}
    for number in range(arguments.rounds):
        for name, options in engines.items():
            rates[name].append(rate(loaded, samples, options))
            print(f"round {number + 1}, {name}: {rates[name][-1]:.2f} samples/s", flush=True)
    base = rates["one worker"]
    ratios = {
        name: statistics.median(one / other for one, other in zip(found, base, strict=True))
        for name, found in rates.items()
    }
    facts: dict[str, Any] = {"rates": rates, "ratios": ratios, "load": os.getloadavg()}
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}x of one worker (median of {arguments.rounds} rounds)")
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    slow = [f"two workers reach {ratios['two workers']:.2f}x, asked {TWO_WORKERS}x"]
    failed = slow if ratios["two workers"] < TWO_WORKERS else []
    if ratios.get("ray, one worker", 1.0) < RAY:
        failed.append(f"Ray reaches {ratios['ray, one worker']:.2f}x, asked {RAY}x")
    if arguments.check and failed:
        sys.exit("; ".join(failed))


if __name__ == "__main__":
    main()
