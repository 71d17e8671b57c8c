"""What a large job costs: measured rates, a replay of measured times, and plans for more workers.

The chunks of a job run on one worker, which measures the seconds of each. The replay sends
these seconds through the scheduler that the engines have (a free worker takes the next chunk) and
predicts the time of two workers. The same chunks then run on two worker processes: the prediction
must be within --tolerance of that. With --plan the replay goes on to 8 and 64 workers on Ray: what
the one driver costs is measured with workers that answer at once and rows that are stored.

    python benchmarks/scale.py --check
    python benchmarks/scale.py --plan --rate 2500
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import whyformer as wf
from whyformer.audit.explain_samples import ReduceTask
from whyformer.audit.sample_explainer import ExplainSettings
from whyformer.batching.series import window_size
from whyformer.datasets import Sample
from whyformer.evaluation.sent_model import send_model
from whyformer.evaluation.store import Store
from whyformer.evaluation.units import ResultRow
from whyformer.models.load import load_model
from whyformer.summarize.parts import reduce_to_parts
from whyformer.workers import Chunk, EngineOptions, Task, open_engine
from whyformer.workers.chunk import Work

CHUNK = 16  # samples
TOLERANCE = 0.15
WORKERS = (1, 8, 64)
EMPTY = 400  # chunks without work
METHODS = 15


@dataclass(frozen=True)
class TimedTask:
    """A task whose result is (start, end) of each chunk on the worker's clock."""

    task: Task

    def open(self) -> Work:
        """Open the task; return its work, timed."""
        work = self.task.open()

        def timed(payload: Any) -> tuple[float, float]:
            start = time.time()
            work(payload)
            return start, time.time()

        return timed


@dataclass(frozen=True)
class EmptyTask:
    """A task that answers at once, with as many rows as a chunk of an evaluation has."""

    rows: int

    def open(self) -> Work:
        """Return the function from the number of a chunk to its rows."""
        return self._answer

    def _answer(self, number: int) -> list[ResultRow]:
        steps = [i / 10 for i in range(10)]
        facts: ResultRow = dict.fromkeys(("label", "found", "there"))
        facts |= {"target": "predicted", "metric": "perturbation", "value": 0.5, "explained": 1}
        facts |= {"curve": steps, "steps": steps, "convention": "authors", "fill": "zero"}
        return [
            {"unit": f"{number:016d}{i:016d}", "sample": f"val/{number}", "method": "gae", **facts}
            for i in range(self.rows)
        ]


@dataclass(frozen=True)
class Plan:
    """A large job: how many inputs, and how many passes and rows each takes.

    A forward+backward pass counts as three forward passes.
    """

    title: str
    inputs: int
    forwards: int
    rows: int
    chunk: int = CHUNK  # inputs

    @property
    def total(self) -> int:
        """All forward passes."""
        return self.inputs * self.forwards


PLANS = (
    # Each method explains (3), then both perturbations remove 9 shares each.
    Plan(
        "ImageNet validation, 15 methods, both perturbations",
        50_000,
        METHODS * (3 + 2 * 9),
        METHODS * 2,
    ),
    Plan("a million reviews, one explanation each", 1_000_000, 3, 1, window_size(None)),
    Plan("a million reviews, libragrad, AUAC and deletion (10 shares each)", 1_000_000, 23, 2),
)


def replay(seconds: Sequence[float], workers: int, handling: float = 0.0) -> float:
    """Return the time of all chunks if a free worker always takes the next one.

    Args:
        seconds: Of each chunk, in the order in which they are handed out.
        workers: How many there are.
        handling: Seconds of the one driver for each chunk: it hands out and stores one at a time.
    """
    free = [0.0] * workers
    driver = 0.0
    for one in seconds:
        start = max(heapq.heappop(free), driver)
        driver = start + handling
        heapq.heappush(free, start + handling + one)
    return max(free)


def measure(chunks: Sequence[Chunk], task: Task, workers: int) -> list[tuple[float, float]]:
    """Return (start, end) of every chunk; one worker is this process."""
    engine = open_engine(EngineOptions(workers=workers))
    found = []
    for finished in engine.run(TimedTask(task), iter(chunks), len(chunks)):
        if finished.failure is not None:
            raise SystemExit(f"chunk {finished.name} failed: {finished.failure.error}")
        found.append(finished.result)
    return found


def span(times: Sequence[tuple[float, float]]) -> float:
    """Return the seconds from the first start to the last end: start-up is left out."""
    return max(end for _, end in times) - min(start for start, _ in times)


def driver_seconds(rows: int, engine: str) -> float:
    """Return the seconds of the driver for a chunk: hand it out, read its rows, store them."""
    chunks = [Chunk(f"{i:06d}", i) for i in range(EMPTY)]
    workers = open_engine(EngineOptions(engine, 2))
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)
        for finished in workers.run(EmptyTask(rows), iter(chunks), EMPTY):
            store.add(finished.result)
            ends.append(time.perf_counter())
    half = EMPTY // 2  # without start-up
    return (ends[-1] - ends[half]) / (EMPTY - 1 - half)


def sentence_chunks(count: int) -> list[Chunk]:
    """Return chunks of the bundled sentences, repeated."""
    texts = [str(text) for text in wf.models()["sst2"].samples()]
    samples = [Sample(str(i), texts[i % len(texts)]) for i in range(count)]
    return [Chunk(f"{i:06d}", samples[i : i + CHUNK]) for i in range(0, count, CHUNK)]


def main(options: argparse.Namespace) -> Mapping[str, Any]:
    """Measure, replay, compare and plan; return all figures."""
    model = send_model(load_model("sst2"), EngineOptions(workers=2))
    reduce = partial(reduce_to_parts, "libragrad", None, "words", None)
    task = ReduceTask(model, ExplainSettings(batch=1), reduce)
    chunks = sentence_chunks(options.samples)
    alone = measure(chunks, task, 1)
    seconds = [end - start for start, end in alone]
    handling = max(0.0, (span(alone) - sum(seconds)) / len(seconds))
    rate = options.samples / span(alone)
    predicted = replay(seconds, 2, handling)
    measured = span(measure(chunks, task, 2))
    error = predicted / measured - 1
    print(f"one worker    {span(alone):7.2f} s  {rate:7.1f} explanations/s")
    print(f"two workers   {measured:7.2f} s  {span(alone) / measured:5.2f}x of one")
    print(f"the replay    {predicted:7.2f} s  {100 * error:+.1f} % of the measured time")
    print(f"handling      {1000 * handling:7.2f} ms for each chunk of {CHUNK}")
    found: dict[str, Any] = {
        "samples": options.samples,
        "rate": rate,
        "handling": handling,
        "one": span(alone),
        "two": measured,
        "predicted": predicted,
    }
    if options.plan:
        found["plans"] = print_plans(options.rate, options.engine)
    if options.check and abs(error) > options.tolerance:
        raise SystemExit(f"the replay is off by {100 * error:+.1f} %")
    return found


def print_plans(rate: float, engine: str) -> list[dict[str, Any]]:
    """Print the hours of each plan on 1, 8 and 64 workers with this rate; return them."""
    found = []
    print(f"\nat {rate:g} forward passes per second and worker, driver of the engine {engine}")
    for plan in PLANS:
        driver = driver_seconds(plan.chunk * plan.rows, engine)
        chunk = plan.chunk * plan.forwards / rate
        count = plan.inputs // plan.chunk
        hours = {n: replay([chunk] * count, n, driver) / 3600 for n in WORKERS}
        busy = {n: plan.total / rate / 3600 / n / hours[n] for n in WORKERS}
        print(f"  {plan.title}: {plan.total:,} forward passes")
        print(f"    chunk of {plan.chunk}: worker {chunk:.3f} s, driver {driver:.4f} s")
        for n in WORKERS:
            print(f"    {n:3d} workers {hours[n]:9.2f} h, busy {100 * busy[n]:.0f} %")
        found.append(
            {"plan": plan.title, "forwards": plan.total, "driver": driver}
            | {"hours": hours, "busy": busy}
        )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--samples", type=int, default=320)
    parser.add_argument("--rate", type=float, default=2500.0, help="forward passes per second")
    parser.add_argument("--engine", default="ray", help="of the plans")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    parser.add_argument("--check", action="store_true", help="fail if the replay is off")
    parser.add_argument("--plan", action="store_true", help="print plans for more workers")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    figures = main(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    sys.exit(0)
