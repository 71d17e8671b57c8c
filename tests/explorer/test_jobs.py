from __future__ import annotations

import threading
import time
import warnings
from typing import Any

import pytest
import torch

from whyformer.errors import InputError
from whyformer.explorer import jobs as module
from whyformer.explorer.jobs import Job, JobQueue, SendEvent
from whyformer.explorer.limits import BusyError, Limits

SMALL = Limits(running=1, waiting=1, seconds=30.0)


def kinds(job: Job) -> list[str]:
    return [event["event"] for event in job.events() if event["event"] != "beat"]


def test_a_job_tells_what_it_does_and_ends() -> None:
    job = JobQueue(SMALL).submit(lambda send: send("found", what=1))
    assert list(job.events()) == [
        {"event": "started"},
        {"event": "found", "what": 1},
        {"event": "done"},
    ]


def test_one_runs_one_waits_and_the_third_is_refused_in_a_sentence() -> None:
    jobs, go = JobQueue(SMALL), threading.Event()
    first = jobs.submit(lambda send: bool(go.wait(20)))
    second = jobs.submit(lambda send: None)
    assert jobs.busy == (1, 1)
    with pytest.raises(BusyError, match=r"1 explanations are running and 1 are waiting. Try again"):
        jobs.submit(lambda send: None)
    go.set()
    assert kinds(first) == ["started", "done"]
    assert kinds(second) == ["queued", "started", "done"]
    assert _idle(jobs)


def test_a_waiting_job_that_nobody_wants_never_runs_and_makes_room() -> None:
    jobs, go, ran = JobQueue(SMALL), threading.Event(), []
    jobs.submit(lambda send: bool(go.wait(20)))
    left = jobs.submit(lambda send: ran.append("left"))
    left.cancel()
    stays = jobs.submit(lambda send: ran.append("stays"))
    go.set()
    assert kinds(stays)[-1] == "done"
    assert ran == ["stays"]


def test_a_refusal_is_told_as_its_sentence() -> None:
    def work(send: SendEvent) -> None:
        raise InputError("there is\n nothing", argument="model", remedy="Pass model=")

    *_, last = JobQueue(SMALL).submit(work).events()
    assert last == {"event": "error", "says": "there is nothing. Choose another model."}


def test_a_mistake_of_ours_is_told_without_a_traceback_which_the_terminal_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(send: SendEvent) -> None:
        raise ZeroDivisionError("secret")

    *_, last = JobQueue(SMALL).submit(work).events()
    assert last["event"] == "error"
    assert "ZeroDivisionError" in last["says"]
    assert "secret" not in last["says"]
    assert "ZeroDivisionError: secret" in capsys.readouterr().err


def test_cancel_stops_between_two_operations() -> None:
    started = threading.Event()

    def work(send: SendEvent) -> None:
        started.set()
        while True:  # nothing in here asks whether it is wanted: torch does
            torch.ones(1) + 1

    job = (jobs := JobQueue(SMALL)).submit(work)
    started.wait(10)
    job.cancel()
    *_, last = job.events()
    assert last == {"event": "error", "says": "cancelled"}
    assert _idle(jobs)


def test_a_job_that_takes_too_long_is_stopped() -> None:
    def work(send: SendEvent) -> None:
        while True:
            torch.ones(1) + 1

    *_, last = (jobs := JobQueue(Limits(running=1, seconds=0.2))).submit(work).events()
    assert "longer than 0.2 seconds" in last["says"]
    assert _idle(jobs)


def test_a_job_that_cannot_be_stopped_is_left_and_new_work_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.2)
    jobs, go = JobQueue(Limits(running=1, waiting=5, seconds=0.1)), threading.Event()
    *_, last = jobs.submit(lambda send: bool(go.wait(20))).events()
    assert "longer than 0.1 seconds" in last["says"]
    with pytest.raises(BusyError, match="busy with jobs that do not stop"):
        jobs.submit(lambda send: None)
    go.set()
    assert _idle(jobs)
    assert kinds(jobs.submit(lambda send: None)) == ["started", "done"]


def test_warnings_of_two_jobs_at_once_are_silent_and_the_filters_come_back() -> None:
    before = list(warnings.filters)
    jobs, both = JobQueue(Limits(running=2)), threading.Barrier(2)

    def work(send: SendEvent) -> None:
        both.wait(10)
        warnings.warn("would be an error in a test", UserWarning, stacklevel=1)

    both_jobs = [jobs.submit(work) for _ in range(2)]
    assert [kinds(job)[-1] for job in both_jobs] == ["done", "done"]
    assert _idle(jobs)
    _soon(lambda: warnings.filters == before)


def _idle(jobs: JobQueue) -> bool:
    return _soon(lambda: jobs.busy == (0, 0))


def _soon(truth: Any) -> bool:
    ends = time.monotonic() + 10
    while not truth() and time.monotonic() < ends:
        time.sleep(0.01)
    assert truth()
    return True
