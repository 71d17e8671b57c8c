"""The queue of jobs: fair between clients and between kinds of work, and bounded."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from whyformer.explorer.jobs import Job, Work
from whyformer.explorer.limits import BusyError, Limits
from whyformer.models.quiet import quiet_warnings

LONGEST_PAUSE = 5.0  # seconds between two images
OTHERS = 10.0  # seconds after a job without an image in which images stand back
Lane = tuple[str, bool]  # the address of a client, and whether its jobs have an upload


class JobQueue:
    """Runs jobs within the limits.

    A short job has the processor for itself: two Python threads would only slow each other down.
    A long one gets company after a while. Clients take turns, and so do jobs with and without an
    upload, so that a flood of images delays others by one job at most. Images are decoded beside
    the jobs, one at a time and with low priority: Pillow does not hold Python's lock. After a job
    with an image, the next image waits as long as that job took, and three times as long while
    there are other jobs: a flood of images gets a quarter of the time at most.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._running: set[Job] = set()
        self._lanes: dict[Lane, deque[Job]] = {}  # the lane whose turn is next comes first
        self._undecoded: deque[Job] = deque()
        self._decoding: Job | None = None
        self._next_image = 0.0  # when the next image may be decoded
        self._image_begun = 0.0  # when the last one was
        self._other_came = -OTHERS  # when the last job without an image came

    def submit(self, work: Work, client: str = "", upload: bool = False) -> Job:
        """Start the work or queue it; raise BusyError if the queue is full."""
        job = Job(work, self._limits.seconds, client, upload)
        with self._lock:
            self._drop_cancelled()
            self._check_room(client, upload)
            waiting = self._waiting()
            if upload:
                self._undecoded.append(job)
                self._decode_next()
            else:
                self._other_came = time.monotonic()
                self._line_up(job)
            if job not in self._running:
                job.ahead = len(waiting) + len(self._running)
        return job

    def check_room(self, client: str, upload: bool) -> None:
        """Raise BusyError if a job of this kind would be refused now."""
        with self._lock:
            self._drop_cancelled()
            self._check_room(client, upload)

    @property
    def busy(self) -> tuple[int, int]:
        """The number of running and of waiting jobs."""
        with self._lock:
            return len(self._running), len(self._waiting())

    def cancel_all(self) -> None:
        """Ask all jobs to stop."""
        with self._lock:
            for job in (*self._running, *self._waiting()):
                job.cancel()

    def _waiting(self) -> list[Job]:
        ready = [job for lane in self._lanes.values() for job in lane]
        return [*ready, *self._undecoded, *([self._decoding] if self._decoding else [])]

    def _drop_cancelled(self) -> None:
        kept = {
            lane: deque(job for job in jobs if not job.should_stop())
            for lane, jobs in self._lanes.items()
        }
        self._lanes = {lane: jobs for lane, jobs in kept.items() if jobs}
        self._undecoded = deque(job for job in self._undecoded if not job.should_stop())

    def _check_room(self, client: str, upload: bool) -> None:
        limits, running, waiting = self._limits, len(self._running), self._waiting()
        if running >= limits.running and all(job.stuck for job in self._running):
            raise BusyError(
                "the explorer is busy with jobs that do not stop",
                remedy="Try again in a minute, or restart the explorer",
            )
        if not running and not waiting:
            return
        uploads = sum(job.upload for job in waiting)
        from_client = sum(job.client == client for job in waiting)
        if (
            len(waiting) >= limits.waiting
            or from_client >= limits.client_waiting
            or (upload and uploads >= limits.uploads)
        ):
            raise BusyError(
                f"{running} explanations are running and {len(waiting)} are waiting",
                remedy="Try again in a few seconds",
            )

    def _line_up(self, job: Job) -> None:
        self._lanes.setdefault((job.client, job.upload), deque()).append(job)
        self._start_next()

    def _decode_next(self) -> None:
        ready = any(upload for _, upload in self._lanes) or any(j.upload for j in self._running)
        if self._decoding is not None or ready or not self._undecoded:
            return
        delay = self._next_image - time.monotonic()
        if delay > 0:
            _call_later(delay, self._fill)
            return
        self._decoding = self._undecoded.popleft()
        self._image_begun = time.monotonic()
        threading.Thread(
            target=self._decode, args=(self._decoding,), name="explorer image", daemon=True
        ).start()

    def _decode(self, job: Job) -> None:
        _lower_priority()
        more = False
        try:
            more = job.prepare()
        finally:
            with self._lock:
                self._decoding = None
                if more:
                    self._line_up(job)
                else:
                    self._pause_images()
                self._decode_next()

    def _pause_images(self) -> None:
        """Let the next image wait as long as this one took, or three times as long."""
        now = time.monotonic()
        times = 3 if now - self._other_came < OTHERS else 1
        self._next_image = now + min(times * (now - self._image_begun), LONGEST_PAUSE)

    def _start_next(self) -> None:
        """Start waiting jobs as long as there is a place for them."""
        while self._lanes and self._has_place():
            held = any(job.upload for job in self._running)
            lane = next((one for one in self._lanes if not (held and one[1])), None)
            if lane is None:
                return
            jobs = self._lanes.pop(lane)
            job = jobs.popleft()
            if jobs:
                self._lanes[lane] = jobs  # its next turn is after all other lanes
            if not job.should_stop():
                self._start(job)

    def _has_place(self) -> bool:
        settled = all(job.age >= self._limits.alone for job in self._running)
        return len(self._running) < self._limits.running and settled

    def _start(self, job: Job) -> None:
        self._running.add(job)
        job.start()
        threading.Thread(target=self._run, args=(job,), name="explorer job", daemon=True).start()

    def _run(self, job: Job) -> None:
        company = _call_later(self._limits.alone, self._fill)
        try:
            with quiet_warnings():
                job.run()
        finally:
            company.cancel()
            with self._lock:
                self._running.discard(job)
                if job.upload:
                    self._pause_images()
            self._fill()

    def _fill(self) -> None:
        with self._lock:
            self._start_next()
            self._decode_next()


def _call_later(seconds: float, function: Callable[[], None]) -> threading.Timer:
    timer = threading.Timer(seconds, function)
    timer.daemon = True
    timer.start()
    return timer


def _lower_priority() -> None:
    """Let other threads go first, where the system has priorities of threads."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
