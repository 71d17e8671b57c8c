"""Feed damaged files, models, command lines and requests to whyformer.

    python -m tests.fuzz.fuzz --cases 50000 --seed 0

Fails if something raises another error than whyformer's own, takes longer than five seconds, needs
more than 1.5 GB of memory, or writes outside of its folder. A find is repeated by its number:
`--only NUMBER`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.surfaces import SURFACES
from whyformer.errors import WhyformerError

SECONDS = 5.0
MEMORY = 1.5e9
TOO_SLOW = f"took longer than {SECONDS:.0f} s"


class TooSlow(BaseException):
    """A case took longer than it may."""


@dataclass
class Report:
    """What the fuzzer found."""

    cases: int = 0
    problems: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: tuple[float, str] = (0.0, "")
    memory: float = 0.0

    def __str__(self) -> str:
        refused = sum(count for name, count in self.outcomes.items() if name != "read")
        lines = [
            f"{self.cases:,} cases: {self.outcomes['read']:,} read, {refused:,} refused,"
            f" {len(self.problems)} problems",
            f"slowest {self.slowest[0]:.2f} s ({self.slowest[1]}),"
            f" memory {self.memory / 1e9:.2f} GB",
        ]
        return "\n".join([*lines, *self.problems[:20]])


def peak_memory() -> float:
    """Return the largest memory of this process in bytes; 0 where the system does not tell.

    Not ru_maxrss: that of a child starts at its parent's peak.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(one for one in status.read_text("ascii").splitlines() if one.startswith("VmHWM"))
    return float(line.split()[1]) * 1024


def fuzz(cases: int, seed: int, only: int | None = None) -> Report:
    """Try many cases and return what was found; `only` tries one of them."""
    names = [name for name, (_, weight) in SURFACES.items() for _ in range(weight)]
    report, outside = Report(), list[str]()
    work = Path(tempfile.mkdtemp(prefix="whyformer-fuzz-"))
    for surface, _ in SURFACES.values():  # what they need is made once, and takes its time
        with tempfile.TemporaryDirectory() as first, suppress(WhyformerError):
            surface(random.Random("first"), Path(first))
    _watch_writes(work, outside)
    before = os.getcwd()  # noqa: PTH109
    signal.signal(signal.SIGALRM, _stop)
    try:
        for number in range(cases) if only is None else (only,):
            name = random.Random(f"{seed} {number}").choice(names)
            folder = work / "case"
            folder.mkdir()
            os.chdir(folder)
            start = time.perf_counter()
            problem = _try(name, random.Random(f"{seed} {number} {name}"), folder, report)
            seconds = time.perf_counter() - start
            if problem == TOO_SLOW:  # again, because the machine may be busy: a hang stays one
                problem = _try(name, random.Random(f"{seed} {number} {name}"), folder, report)
            report.slowest = max(report.slowest, (seconds, f"{name} {number}"))
            problem = problem or (f"wrote {outside[0]}" if outside else "")
            outside.clear()
            if problem:
                report.problems.append(f"{name} {number}: {problem}")
            os.chdir(before)
            shutil.rmtree(folder)
            report.cases += 1
    finally:
        os.chdir(before)
        shutil.rmtree(work, ignore_errors=True)
    report.memory = peak_memory()
    if report.memory > MEMORY:
        report.problems.append(f"memory {report.memory / 1e9:.2f} GB")
    return report


def _try(name: str, draw: random.Random, folder: Path, report: Report) -> str:
    """Try one case; return what is wrong with how it ended, or ""."""
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SURFACES[name][0](draw, folder)
        report.outcomes["read"] += 1
    except WhyformerError as error:
        report.outcomes[type(error).__name__] += 1
    except TooSlow:
        return TOO_SLOW
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {error!s:.200} ({last.filename}:{last.lineno})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return ""


def _stop(*_: Any) -> None:
    raise TooSlow


def _watch_writes(folder: Path, outside: list[str]) -> None:
    """Note every file that is opened for writing outside of `folder`."""
    allowed = (str(folder), tempfile.gettempdir() + os.sep, os.devnull, "/proc/")

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], str | bytes):
            return
        name, _, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) == 0:
            return
        path = os.path.abspath(os.fsdecode(name))  # noqa: PTH100
        if not path.startswith(allowed):
            outside.append(path)

    sys.addaudithook(watch)


def main() -> None:
    """Run the fuzzer from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int)
    chosen = parser.parse_args()
    sys.dont_write_bytecode = True
    report = fuzz(chosen.cases, chosen.seed, chosen.only)
    print(report)
    sys.exit(bool(report.problems))


if __name__ == "__main__":
    main()
