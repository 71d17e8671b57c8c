"""Try cases in one process: errors, processor time, memory and writes of each are watched.

The five seconds are of processor time, because a busy machine makes everything late. Who waits or
hangs inside a library uses none, or hears no signal: the parent ends such a process (fuzz.py).
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.fuzz.surfaces import SURFACES
from whyformer.errors import WhyformerError

SECONDS = 5.0  # of processor time
MEMORY = 1.5e9
READ = "read"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
# Events of Python that change files, and how many of their arguments are paths.
CHANGES = {"os.mkdir": 1, "os.rename": 2, "os.remove": 1, "os.rmdir": 1, "os.link": 2,
           "os.symlink": 2, "os.chmod": 1}  # fmt: skip


class TooSlow(BaseException):
    """A case took longer than it may."""


@dataclass(frozen=True)
class Tried:
    """How one case ended: "read", the name of an error of whyformer, or a problem."""

    number: int
    surface: str
    outcome: str
    problem: str
    seconds: float  # of processor time
    memory: float  # the peak of the process in bytes


def name_of(seed: int, number: int) -> str:
    """Return the surface of a case."""
    names = [name for name, surface in SURFACES.items() for _ in range(surface.weight)]
    return random.Random(f"{seed} {number}").choice(names)


def make(seed: int, number: int, folder: Path) -> None:
    """Write the files of a case."""
    name = name_of(seed, number)
    SURFACES[name].make(random.Random(f"{seed} {number} {name}"), folder)


def serve(line: Connection, seed: int, numbers: range, threads: int = 1) -> None:
    """Try cases in this process, and send the number of each before it and its end after it."""
    import torch

    torch.set_num_threads(threads)
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    for message in try_all(seed, numbers):
        line.send(message)
    line.close()


def try_all(seed: int, numbers: Iterable[int]) -> Iterator[int | Tried]:
    """Try cases; yield the number of each before it is tried, and how it ended."""
    home = Path(tempfile.mkdtemp(prefix="whyformer-fuzz-"))
    tempfile.tempdir = str(home / "temporary")
    (home / "temporary").mkdir()
    sys.dont_write_bytecode = True
    outside: list[str] = []
    _prepare(seed, home / "first")
    _watch_writes(home, outside)
    before = os.getcwd()  # noqa: PTH109
    memory = peak_memory()
    try:
        for number in numbers:
            yield number
            folder = home / "case"
            folder.mkdir()
            os.chdir(folder)
            tried = _try(seed, number, folder)
            problem = tried.problem or (f"wrote {outside[0]}" if outside else "")
            if tried.memory > MEMORY >= memory and not problem:
                problem = f"memory {tried.memory / 1e9:.2f} GB"
            memory = tried.memory
            os.chdir(before)
            shutil.rmtree(folder, ignore_errors=True)
            outside.clear()
            yield Tried(**{**vars(tried), "problem": problem})
    finally:
        os.chdir(before)
        shutil.rmtree(home, ignore_errors=True)


def _prepare(seed: int, folder: Path) -> None:
    """Try every surface once: what they need is made once, and takes its time."""
    for surface in SURFACES.values():
        folder.mkdir()
        with suppress(Exception):
            surface.make(random.Random("first"), folder)
            surface.read(folder)
        shutil.rmtree(folder)


def _try(seed: int, number: int, folder: Path) -> Tried:
    name, start, problem = name_of(seed, number), time.process_time(), ""
    try:
        make(seed, number, folder)
        outcome, problem = watch(name, folder)
    except Exception as error:
        outcome, problem = "", f"the fuzzer itself: {describe(error)}"
    return Tried(number, name, outcome, problem, time.process_time() - start, peak_memory())


def watch(name: str, folder: Path) -> tuple[str, str]:
    """Read a folder; return the outcome and what is wrong with it, or ""."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            SURFACES[name].read(folder)
        return READ, ""
    except WhyformerError as error:
        return type(error).__name__, ""
    except TooSlow:
        return "", f"took more than {SECONDS:.0f} s of processor time"
    except Exception as error:
        return "", describe(error)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def describe(error: BaseException) -> str:
    """Return an error and its place in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "/whyformer/" in frame.filename] or frames
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text} ({Path(own[-1].filename).name}:{own[-1].lineno})"


def peak_memory() -> float:
    """Return the largest memory of this process in bytes; 0 where the system does not tell.

    Not ru_maxrss: that of a child starts at its parent's peak.
    """
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(one for one in status.read_text("ascii").splitlines() if one.startswith("VmHWM"))
    return float(line.split()[1]) * 1024


def _stop(*_: Any) -> None:
    raise TooSlow


def _watch_writes(home: Path, outside: list[str]) -> None:
    """Note every file outside of `home` that Python opens for writing or changes."""
    allowed = (f"{home}{os.sep}", os.devnull, "/proc/")

    def note(name: Any) -> None:
        if isinstance(name, str | bytes | os.PathLike):
            path = os.path.abspath(os.fsdecode(name))  # noqa: PTH100
            if not path.startswith(allowed):
                outside.append(path)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and arguments[2] & WRITING:
            note(arguments[0])
        if event in CHANGES and arguments[-1] == -1:  # otherwise relative to an open folder
            for name in arguments[: CHANGES[event]]:
                note(name)

    sys.addaudithook(hook)
