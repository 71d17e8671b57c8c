"""Jobs and their queue: a few run, a few wait, and further ones get an error."""

from __future__ import annotations

import queue
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from whyformer.errors import WhyformerError
from whyformer.explorer.error_text import error_text
from whyformer.explorer.interrupt import InterruptMode, JobStopped
from whyformer.explorer.limits import BusyError, Limits
from whyformer.models.quiet import quiet_warnings

Event = dict[str, Any]
SendEvent = Callable[..., None]
Work = Callable[[SendEvent], None]

BEAT = 0.5  # seconds between heartbeats; sending one shows whether the connection is still open
GRACE = 2.0  # seconds for a job to stop
CANCELLED = "cancelled"
INTERNAL_ERROR = "internal error in the explorer ({name}); see the terminal for details"


class Job:
    """Work in a thread: its events, and whether it should stop."""

    def __init__(self, work: Work, seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._cancelled = threading.Event()
        self._ends = float("inf")
        self.ahead = 0  # position in the queue when submitted

    def send(self, event: str, **facts: Any) -> None:
        """Queue an event for `events`; raise JobStopped if the job should stop."""
        if self.should_stop():
            raise JobStopped
        self._events.put({"event": event, **facts})

    def cancel(self) -> None:
        """Ask the job to stop."""
        self._cancelled.set()

    def should_stop(self) -> bool:
        """Whether the job was cancelled or its time is over."""
        return self._cancelled.is_set() or time.monotonic() > self._ends

    @property
    def stuck(self) -> bool:
        """Whether the job should have stopped but did not."""
        return time.monotonic() > self._ends + GRACE

    def run(self) -> None:
        """Do the work; an error becomes the last event."""
        self._ends = time.monotonic() + self._seconds
        last: Event = {"event": "done"}
        try:
            self.send("started")
            with InterruptMode(self.should_stop):
                self._work(self.send)
        except JobStopped:
            last = {"event": "error", "says": self._stop_reason}
        except WhyformerError as error:
            last = {"event": "error", "says": error_text(error)}
        except MemoryError:
            last = {"event": "error", "says": "there is not enough memory for this input"}
        except Exception as error:
            traceback.print_exc()
            last = {"event": "error", "says": INTERNAL_ERROR.format(name=type(error).__name__)}
        finally:
            self._events.put(last)

    @property
    def _stop_reason(self) -> str:
        if self._cancelled.is_set():
            return CANCELLED
        return (
            f"this took longer than {self._seconds:g} seconds and was stopped. Choose fewer or"
            " faster methods, or a shorter input."
        )

    def events(self) -> Iterator[Event]:
        """Yield the job's events, and a heartbeat while there are none, until it ends."""
        if self.ahead:
            yield {"event": "queued", "ahead": self.ahead}
        while True:
            try:
                event = self._events.get(timeout=BEAT)
            except queue.Empty:
                if self.stuck:  # its thread continues until the current operation ends
                    yield {"event": "error", "says": self._stop_reason}
                    return
                event = {"event": "beat"}
            yield event
            if event["event"] in ("done", "error"):
                return


class JobQueue:
    """Runs jobs in order, within the limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[Job] = set()
        self._waiting: deque[Job] = deque()

    def submit(self, work: Work) -> Job:
        """Start the work or queue it; raise BusyError if the queue is full."""
        job = Job(work, self._limits.seconds)
        with self._lock:
            self._waiting = deque(other for other in self._waiting if not other.should_stop())
            full = len(self._running) >= self._limits.running
            if full and all(other.stuck for other in self._running):
                raise BusyError(
                    "the explorer is busy with jobs that do not stop",
                    remedy="Try again in a minute, or restart the explorer",
                )
            if full and len(self._waiting) >= self._limits.waiting:
                raise BusyError(
                    f"{len(self._running)} explanations are running and {len(self._waiting)} are"
                    " waiting",
                    remedy="Try again in a few seconds",
                )
            job.ahead = len(self._waiting) + 1 if full else 0
            if full:
                self._waiting.append(job)
            else:
                self._start(job)
        return job

    @property
    def busy(self) -> tuple[int, int]:
        """The number of running and of waiting jobs."""
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
                    if not following.should_stop():
                        self._start(following)
