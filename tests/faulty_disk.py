"""A disk that fills up, or a process that is killed, at the k-th file that is written.

Every file of a run is flushed before it gets its name (`storage/atomic_write.py`): the flush is
where the fault is planted.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest
import torch


@dataclass
class Flushes:
    """How many files were flushed."""

    count: int = 0


@contextmanager
def fault_at(number: int, fault: Callable[[], None]) -> Iterator[Flushes]:
    """Call `fault` instead of every flush from the given one on, counted from 1; 0 for none."""
    seen, flush = Flushes(), os.fsync

    def counting(file: int) -> None:
        seen.count += 1
        if 0 < number <= seen.count:
            fault()
        flush(file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", counting)
        yield seen


def no_space() -> None:
    """Fail as a full disk does."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def read_only() -> None:
    """Fail as a disk that became read-only does."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


def kill_self() -> None:
    """End this process as `kill -9` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def start_child(work: Callable[[], object]) -> int:
    """Run `work` in a forked child; return its process id."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        torch.set_num_threads(1)  # OpenMP would wait for threads that the child does not have
        work()
        code = 0
    finally:
        os._exit(code)


def end_of(child: int) -> int:
    """Wait for a child; return its exit code, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
