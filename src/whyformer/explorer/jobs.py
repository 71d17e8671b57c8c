"""Jobs: work in threads, with events for the browser, a time limit and cancelling."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from whyformer.errors import WhyformerError
from whyformer.explorer.error_text import error_text
from whyformer.explorer.interrupt import InterruptMode, JobStopped

Event = dict[str, Any]
SendEvent = Callable[..., None]
# Work that returns more work wants to wait for its turn before that.
Work = Callable[[SendEvent], Any]

BEAT = 0.5  # seconds between heartbeats; sending one shows whether the connection is still open
GRACE = 2.0  # seconds for a job to stop
LAST = ("done", "error")
CANCELLED = "cancelled"
INTERNAL_ERROR = "internal error in the explorer ({name}); see the terminal for details"


class Job:
    """Work in a thread: its events, and whether it should stop."""

    def __init__(self, work: Work, seconds: float, client: str = "", upload: bool = False) -> None:
        self.client = client
        self.upload = upload  # it has an image to decode, which is its first part
        self.ahead = 0  # jobs before it when submitted
        self._work = work
        self._seconds = seconds
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._notify: Callable[[], object] = lambda: None
        self._ended = False
        self._cancelled = threading.Event()
        self._started = self._ends = float("inf")

    def send(self, event: str, **facts: Any) -> None:
        """Queue an event for `events`; raise JobStopped if the job should stop."""
        if self.should_stop():
            raise JobStopped
        self._put({"event": event, **facts})

    def _put(self, event: Event) -> None:
        self._events.put(event)
        with suppress(RuntimeError):  # the server has stopped
            self._notify()

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

    def start(self) -> None:
        """Start the clock of the job."""
        self._started = time.monotonic()
        self._ends = self._started + self._seconds

    @property
    def age(self) -> float:
        """Seconds since the start; negative before it."""
        return time.monotonic() - self._started

    def prepare(self) -> bool:
        """Do the first part of the work; return whether there is more to do."""
        self._run(self._prepare)
        return not self._ended

    def _prepare(self) -> bool:
        self.send("started")
        self._work = self._work(self.send)
        return self._work is None

    def run(self) -> None:
        """Do the work; whatever ends it becomes the last event, and only success is "done"."""
        self._run(self._finish)

    def _finish(self) -> bool:
        if not self.upload:
            self.send("started")
        with InterruptMode(self.should_stop):
            self._work(self.send)
        return True

    def _run(self, step: Callable[[], bool]) -> None:
        """Run a step that returns whether the work is done."""
        ended, says = True, INTERNAL_ERROR.format(name="the job ended early")
        try:
            ended, says = step(), ""
        except JobStopped:
            says = self._stop_reason
        except WhyformerError as error:
            says = error_text(error)
        except MemoryError:
            says = "there is not enough memory for this input. Choose a smaller one."
        except BaseException as error:  # in a thread, SystemExit ends nothing but the thread
            traceback.print_exc()
            says = INTERNAL_ERROR.format(name=type(error).__name__)
        finally:
            self._ended = ended
            if ended:
                self._put({"event": "error", "says": says} if says else {"event": "done"})

    @property
    def _stop_reason(self) -> str:
        if self._cancelled.is_set():
            return CANCELLED
        return (
            f"this took longer than {self._seconds:g} seconds and was stopped. Choose fewer or"
            " faster methods, or a shorter input."
        )

    async def events(self) -> AsyncIterator[Event]:
        """Yield the job's events, and a heartbeat while there are none, until it ends."""
        arrived = asyncio.Event()
        self._notify = partial(asyncio.get_running_loop().call_soon_threadsafe, arrived.set)
        if self.ahead:
            yield {"event": "queued", "ahead": self.ahead}
        while True:
            arrived.clear()
            with suppress(queue.Empty):
                while True:
                    event = self._events.get_nowait()
                    yield event
                    if event["event"] in LAST:
                        return
            try:
                async with asyncio.timeout(BEAT):
                    await arrived.wait()
            except TimeoutError:
                if self.stuck:  # its thread continues until the current operation ends
                    yield {"event": "error", "says": self._stop_reason}
                    return
                yield {"event": "beat"}
