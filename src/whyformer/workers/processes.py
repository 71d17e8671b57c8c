"""Several processes on this machine: each loads the model once, and may die without harm.

Each worker has a pipe. The parent sends a chunk, waits for whichever worker answers first, and
starts a new worker in place of one that died.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

import cloudpickle

from whyformer.errors import WhyformerError
from whyformer.workers.chunk import (
    ATTEMPTS,
    LATER,
    Chunk,
    Failure,
    Finished,
    Task,
    attempt,
)
from whyformer.workers.engine import EngineError
from whyformer.workers.order import carry_out, write_order

READY, REFUSED, DONE = "ready", "refused", "done"
STARTS = 3  # how often a worker may die before it is ready
PATIENCE = 5.0  # seconds that a worker gets to end by itself


@dataclass
class _Worker:
    """A process, its pipe, and the chunk that it is working on."""

    process: Any
    pipe: Connection
    chunk: Chunk | None = None
    attempts: int = 0
    is_ready: bool = False


class ProcessEngine:
    """Runs chunks in processes of this machine.

    Args:
        workers: How many processes.
        threads: Threads of torch in each.
    """

    def __init__(self, workers: int, threads: int = 1) -> None:
        self.workers = workers
        self.threads = threads

    def run(self, task: Task, chunks: Iterable[Chunk], count: int) -> Iterator[Finished]:
        """Yield the chunks as they are finished."""
        order = write_order(task, self.threads)
        pool: list[_Worker] = []
        source, again = iter(chunks), deque[tuple[Chunk, int]]()
        deaths, is_exhausted = 0, False
        try:
            pool += [_start(order) for _ in range(max(1, min(self.workers, count)))]
            while True:
                for worker in pool:
                    if worker.is_ready and worker.chunk is None:
                        chunk, attempts = again.popleft() if again else (next(source, None), 0)
                        if chunk is LATER:
                            break
                        if chunk is None:
                            is_exhausted = True
                            break
                        _send(worker, chunk, attempts + 1)
                if is_exhausted and not again and all(one.chunk is None for one in pool):
                    return
                for worker in _speaking(pool):
                    answer = _receive(worker)
                    if answer is None:  # it died
                        pool[pool.index(worker)] = _start(order)
                        code = _exit_code(worker)
                        if worker.chunk is None:
                            deaths += 1
                            if deaths >= STARTS * self.workers:
                                raise EngineError(
                                    f"workers die before their first chunk ({code})",
                                    argument="workers",
                                    remedy="Use fewer workers: each holds a copy of the model",
                                )
                        elif worker.attempts < ATTEMPTS:
                            again.append((worker.chunk, worker.attempts))
                        else:
                            text = f"its worker died {worker.attempts} times ({code})"
                            failure = Failure(text, worker.attempts, died=True)
                            yield Finished(worker.chunk.name, failure=failure)
                    elif answer[0] == REFUSED:
                        raise answer[1]
                    elif answer[0] == READY:
                        worker.is_ready = True
                    else:
                        worker.chunk = None
                        yield answer[1]
        finally:
            _stop(pool)


def _start(order: bytes) -> _Worker:
    context = get_context("spawn")  # a forked torch hangs if a thread was computing
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, order), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _send(worker: _Worker, chunk: Chunk, attempts: int) -> None:
    worker.chunk, worker.attempts = chunk, attempts
    with contextlib.suppress(BrokenPipeError, ConnectionError):  # it died: noticed when it is read
        worker.pipe.send_bytes(cloudpickle.dumps(chunk))


def _speaking(pool: list[_Worker]) -> list[_Worker]:
    """The workers that have answered or died; waits for the first."""
    by_pipe = {worker.pipe: worker for worker in pool}
    return [by_pipe[pipe] for pipe in wait(list(by_pipe)) if isinstance(pipe, Connection)]


def _receive(worker: _Worker) -> Any:
    """The answer of a worker; None if it died."""
    try:
        return cloudpickle.loads(worker.pipe.recv_bytes())
    except (EOFError, OSError):
        return None


def _exit_code(worker: _Worker) -> str:
    worker.process.join(PATIENCE)
    code = worker.process.exitcode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        return f"{name}, perhaps out of memory" if -code == signal.SIGKILL else name
    return f"exit code {code}"


def _stop(pool: list[_Worker]) -> None:
    """End all workers; those that are computing are killed."""
    for worker in pool:
        worker.pipe.close()  # an idle worker ends by itself
        if worker.chunk is not None or not worker.is_ready:
            worker.process.kill()
    for worker in pool:
        worker.process.join(PATIENCE)
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()


def _work(pipe: Connection, order: bytes) -> None:
    """The life of a worker: load once, then one chunk after the other until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends us
    work = carry_out(order)
    if isinstance(work, WhyformerError):
        pipe.send_bytes(cloudpickle.dumps((REFUSED, work)))
        return
    pipe.send_bytes(cloudpickle.dumps((READY, os.getpid())))
    while True:
        try:
            chunk = cloudpickle.loads(pipe.recv_bytes())
        except (EOFError, OSError):
            return
        answer = cloudpickle.dumps((DONE, attempt(work, chunk)))
        with contextlib.suppress(BrokenPipeError, ConnectionError):
            pipe.send_bytes(answer)
