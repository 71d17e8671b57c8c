"""Jobs: a few run, a few wait, the rest are refused; each can be stopped and has its time."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from whyformer.errors import WhyformerError
from whyformer.explorer.limits import BusyError, Limits
from whyformer.explorer.watch import Stopped, Watch
from whyformer.explorer.wording import said
from whyformer.models.quiet import quiet_warnings

Event = dict[str, Any]
Tell = Callable[..., None]
Work = Callable[[Tell], None]

BEAT = 0.5  # seconds between two signs of life; a browser that has left is noticed by them
GRACE = 2.0  # seconds that a job has to stop in
CANCELLED = "cancelled"
OURS = "something went wrong inside the explorer ({name}); the terminal has the details"


class Job:
    """One piece of work: what it tells, and whether it is still wanted."""

    def __init__(self, work: Work, seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._told: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._unwanted = threading.Event()
        self._ends = float("inf")
        self.ahead = 0  # jobs that were before it when it came

    def tell(self, event: str, **facts: Any) -> None:
        """Passes an event on to whoever listens; the end of a job that is not wanted."""
        if self.stopped():
            raise Stopped
        self._told.put({"event": event, **facts})

    def cancel(self) -> None:
        """Nobody wants the job any more."""
        self._unwanted.set()

    def stopped(self) -> bool:
        """Whether the job is unwanted or has had its time."""
        return self._unwanted.is_set() or time.monotonic() > self._ends

    @property
    def stuck(self) -> bool:
        """Whether the job should have stopped and did not."""
        return time.monotonic() > self._ends + GRACE

    def run(self) -> None:
        """Does the work; whatever goes wrong is told."""
        self._ends = time.monotonic() + self._seconds
        last: Event = {"event": "done"}
        try:
            self.tell("started")
            with Watch(self.stopped):
                self._work(self.tell)
        except Stopped:
            last = {"event": "error", "says": self._why}
        except WhyformerError as error:
            last = {"event": "error", "says": said(error)}
        except MemoryError:
            last = {"event": "error", "says": "there is not enough memory for this input"}
        except Exception as error:
            traceback.print_exc()
            last = {"event": "error", "says": OURS.format(name=type(error).__name__)}
        finally:
            self._told.put(last)

    @property
    def _why(self) -> str:
        if self._unwanted.is_set():
            return CANCELLED
        return (
            f"this took longer than {self._seconds:g} seconds and was stopped; choose fewer or"
            " quicker methods, or a shorter input"
        )

    def events(self) -> Iterator[Event]:
        """What the job tells while it runs, a beat where it is silent; the last one ends it."""
        if self.ahead:
            yield {"event": "queued", "ahead": self.ahead}
        while True:
            try:
                event = self._told.get(timeout=BEAT)
            except queue.Empty:
                if self.stuck:  # its thread goes on until its operation ends: nobody waits for it
                    yield {"event": "error", "says": self._why}
                    return
                event = {"event": "beat"}
            yield event
            if event["event"] in ("done", "error"):
                return


class Desk:
    """Takes jobs, in their order, as far as the limits go."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[Job] = set()
        self._waiting: deque[Job] = deque()

    def take(self, work: Work) -> Job:
        """The job, running or waiting; raises `BusyError` where there is no room."""
        job = Job(work, self._limits.seconds)
        with self._lock:
            self._waiting = deque(other for other in self._waiting if not other.stopped())
            full = len(self._running) >= self._limits.running
            if full and all(other.stuck for other in self._running):
                raise BusyError(
                    "the explorer is held up by work that does not end; try again in a minute, or"
                    " start it again"
                )
            if full and len(self._waiting) >= self._limits.waiting:
                raise BusyError(
                    f"{len(self._running)} explanations are running and {len(self._waiting)} are"
                    " waiting; try again in a few seconds"
                )
            job.ahead = len(self._waiting) + 1 if full else 0
            if full:
                self._waiting.append(job)
            else:
                self._start(job)
        return job

    @property
    def busy(self) -> tuple[int, int]:
        """How many jobs run, and how many wait."""
        with self._lock:
            return len(self._running), len(self._waiting)

    def _start(self, job: Job) -> None:
        self._running.add(job)
        threading.Thread(target=self._run, args=(job,), name="explorer job", daemon=True).start()

    def _run(self, job: Job) -> None:
        try:
            with quiet_warnings():
                job.run()
        finally:
            with self._lock:
                self._running.discard(job)
                while self._waiting and len(self._running) < self._limits.running:
                    following = self._waiting.popleft()
                    if not following.stopped():
                        self._start(following)
