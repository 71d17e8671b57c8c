"""Feed damaged files, models, command lines and requests to whyformer.

    python -m tests.fuzz.fuzz --cases 50000 --seed 0

Fails if something raises another error than whyformer's own, takes more than five seconds of
processor time, hangs, needs more than 1.5 GB of memory, or writes outside of its folder. A find is
repeated by its number, and its files are kept with `--keep`:

    python -m tests.fuzz.fuzz --seed 0 --only NUMBER --keep FOLDER
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from tests.fuzz.worker import READ, Tried, make, name_of, serve, watch

HANG = 60.0  # seconds without news from a process; its first case may take five times as long
FIRST = 5.0


@dataclass
class Report:
    """What the fuzzer found."""

    cases: int = 0
    problems: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    surfaces: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    memory: float = 0.0
    elapsed: float = 0.0

    def add(self, tried: Tried) -> None:
        """Count one case."""
        self.cases += 1
        place = f"{tried.surface} {tried.number}"
        if tried.problem:
            self.problems.append(f"{place}: {tried.problem}")
        else:
            self.outcomes[tried.outcome] += 1
        self.surfaces[tried.surface] += 1
        self.times[tried.surface] += tried.seconds  # type: ignore[assignment]
        self.slowest = max(self.slowest, (tried.seconds, place))
        self.memory = max(self.memory, tried.memory)

    def __str__(self) -> str:
        refused = sum(count for name, count in self.outcomes.items() if name != READ)
        lines = [
            f"{name:20} {count:7,} cases {1000 * self.times[name] / count:7.1f} ms each"
            for name, count in sorted(self.surfaces.items())
        ]
        lines += [
            f"{self.cases:,} cases in {self.elapsed:.0f} s: {self.outcomes[READ]:,} read,"
            f" {refused:,} refused, {len(self.problems)} problems",
            f"slowest {self.slowest[0]:.2f} s ({self.slowest[1]}),"
            f" memory {self.memory / 1e9:.2f} GB",
        ]
        return "\n".join([*lines, *self.problems[:40]])


class Worker:
    """A process that tries a range of cases; it is replaced if it hangs or dies."""

    def __init__(self, seed: int, numbers: range) -> None:
        self.seed, self.left, self.current = seed, numbers, -1
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.line, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=serve, args=(theirs, self.seed, self.left))
        self.process.start()
        theirs.close()
        self.limit = time.monotonic() + FIRST * HANG

    @property
    def hangs(self) -> bool:
        """Whether no news came for too long."""
        return time.monotonic() > self.limit

    def news(self) -> Tried | None:
        """Return a finished case, or None; raise EOFError if the process has ended."""
        found = self.line.recv()
        self.limit = time.monotonic() + HANG
        if isinstance(found, Tried):
            self.left = self.left[1:]
            return found
        self.current = found
        return None

    def end(self, hangs: bool) -> Tried | None:
        """End the process and start another for the rest; return the case it could not finish."""
        if hangs:
            self.process.kill()
        self.process.join()
        self.line.close()
        if not self.left:
            return None
        why = f"no end after {HANG:.0f} s" if hangs else f"died ({self.process.exitcode})"
        number, self.left = self.left[0], self.left[1:]
        if self.left:
            self._start()
        return Tried(number, name_of(self.seed, number), "", why, 0.0, 0.0)


def fuzz(cases: int, seed: int, workers: int, tell: Callable[[int], None]) -> Report:
    """Try many cases in several processes; `tell` gets the number of finished ones."""
    report, begun = Report(), time.monotonic()
    team = [Worker(seed, range(first, cases, workers)) for first in range(min(workers, cases))]
    while team:
        lines: list[Connection] = [worker.line for worker in team]
        ready = wait(lines, timeout=1.0)
        for worker in [*team]:
            found = None
            try:
                if worker.line in ready:
                    found = worker.news()
                elif worker.hangs:
                    found = worker.end(hangs=True)
            except EOFError:
                found = worker.end(hangs=False)
            if found is not None:
                report.add(found)
                tell(report.cases)
            if worker.line.closed:
                team.remove(worker)
    report.elapsed = time.monotonic() - begun
    return report


def repeat(seed: int, number: int, keep: Path | None) -> str:
    """Try one case in this process; return how it ended. `keep` gets its files."""
    name = name_of(seed, number)
    home = Path(tempfile.mkdtemp(prefix="whyformer-fuzz-"))
    before = os.getcwd()  # noqa: PTH109
    try:
        make(seed, number, home)
        if keep is not None:
            shutil.copytree(home, keep / name / f"{seed}-{number}")
        os.chdir(home)
        begun = time.process_time()
        outcome, problem = watch(name, home)
        return f"{name} {number}: {problem or outcome}, {time.process_time() - begun:.2f} s"
    finally:
        os.chdir(before)
        shutil.rmtree(home, ignore_errors=True)


def main() -> None:
    """Run the fuzzer from the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", type=int, help="try this case alone, in this process")
    parser.add_argument("--keep", type=Path, help="with --only: copy the files of the case here")
    chosen = parser.parse_args()
    if chosen.only is not None:
        print(repeat(chosen.seed, chosen.only, chosen.keep))
        return
    os.environ["OMP_NUM_THREADS"] = "1"
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task, tenth = bar.add_task("", total=chosen.cases), max(1, chosen.cases // 10)

        def tell(done: int) -> None:
            bar.update(task, completed=done)
            if not console.is_terminal and done % tenth == 0:
                print(f"{done:,} of {chosen.cases:,}", file=sys.stderr, flush=True)

        report = fuzz(chosen.cases, chosen.seed, chosen.workers, tell)
    print(report)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
