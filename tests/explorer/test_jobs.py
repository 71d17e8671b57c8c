from __future__ import annotations

import asyncio
import itertools
import threading
import time
import warnings
from typing import Any

import pytest
import torch

from whyformer.errors import InputError
from whyformer.explorer import jobs as module
from whyformer.explorer.job_queue import JobQueue
from whyformer.explorer.jobs import Event, Job, SendEvent, Work
from whyformer.explorer.limits import BusyError, Limits

SMALL = Limits(running=1, waiting=1, seconds=30.0)


def events(job: Job) -> list[Event]:
    async def collect() -> list[Event]:
        return [event async for event in job.events()]

    return asyncio.run(collect())


def submit(jobs: JobQueue, work: Work, client: str = "", upload: bool = False) -> Job:
    """Submit work; the first part of an upload does nothing."""
    return jobs.submit((lambda send: work) if upload else work, client, upload)


def kinds(job: Job) -> list[str]:
    return [event["event"] for event in events(job) if event["event"] != "beat"]


def test_a_job_tells_what_it_does_and_ends() -> None:
    job = JobQueue(SMALL).submit(lambda send: send("found", what=1))
    assert events(job) == [
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

    last = events(JobQueue(SMALL).submit(work))[-1]
    assert last == {"event": "error", "says": "there is nothing. Choose another model."}


def test_a_mistake_of_ours_is_told_without_a_traceback_which_the_terminal_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(send: SendEvent) -> None:
        raise ZeroDivisionError("secret")

    last = events(JobQueue(SMALL).submit(work))[-1]
    assert last["event"] == "error"
    assert "ZeroDivisionError" in last["says"]
    assert "secret" not in last["says"]
    assert "ZeroDivisionError: secret" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_a_job_that_was_ended_is_never_done(
    kind: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    def work(send: SendEvent) -> None:
        raise kind

    told = events((jobs := JobQueue(SMALL)).submit(work))
    assert [event["event"] for event in told] == ["started", "error"]
    assert ("not enough memory" if kind is MemoryError else kind.__name__) in told[-1]["says"]
    assert _idle(jobs)


def test_cancel_stops_between_two_operations() -> None:
    started = threading.Event()

    def work(send: SendEvent) -> None:
        started.set()
        while True:  # nothing in here asks whether it is wanted: torch does
            torch.ones(1) + 1

    job = (jobs := JobQueue(SMALL)).submit(work)
    started.wait(10)
    job.cancel()
    last = events(job)[-1]
    assert last == {"event": "error", "says": "cancelled"}
    assert _idle(jobs)


def test_a_job_that_takes_too_long_is_stopped() -> None:
    def work(send: SendEvent) -> None:
        while True:
            torch.ones(1) + 1

    last = events((jobs := JobQueue(Limits(running=1, seconds=0.2))).submit(work))[-1]
    assert "longer than 0.2 seconds" in last["says"]
    assert _idle(jobs)


def test_a_job_that_cannot_be_stopped_is_left_and_new_work_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.2)
    jobs, go = JobQueue(Limits(running=1, waiting=5, seconds=0.1)), threading.Event()
    last = events(jobs.submit(lambda send: bool(go.wait(20))))[-1]
    assert "longer than 0.1 seconds" in last["says"]
    with pytest.raises(BusyError, match="busy with jobs that do not stop"):
        jobs.submit(lambda send: None)
    go.set()
    assert _idle(jobs)
    assert kinds(jobs.submit(lambda send: None)) == ["started", "done"]


def test_warnings_of_two_jobs_at_once_are_silent_and_the_filters_come_back() -> None:
    before = list(warnings.filters)
    jobs, both = JobQueue(Limits(running=2, alone=0.0)), threading.Barrier(2)

    def work(send: SendEvent) -> None:
        both.wait(10)
        warnings.warn("would be an error in a test", UserWarning, stacklevel=1)

    both_jobs = [jobs.submit(work) for _ in range(2)]
    assert [kinds(job)[-1] for job in both_jobs] == ["done", "done"]
    assert _idle(jobs)
    _soon(lambda: warnings.filters == before)


def test_clients_take_turns_and_uploads_are_a_line_of_their_own() -> None:
    jobs, go, ran = JobQueue(Limits(running=1)), threading.Event(), []
    jobs.submit(lambda send: bool(go.wait(20)))
    order = [("a", True), ("a", False), ("b", False), ("b", False)]
    waiting = []
    for what in order:
        waiting.append(submit(jobs, lambda send, what=what: ran.append(what), *what))
        _soon(lambda: jobs._decoding is None)
    go.set()
    for job in waiting:
        assert kinds(job)[-1] == "done"
    assert ran == order


def test_one_client_with_many_jobs_lets_others_in_between() -> None:
    jobs, go, ran = JobQueue(Limits(running=1)), threading.Event(), []
    jobs.submit(lambda send: bool(go.wait(20)), "a")
    order = ["a", "a", "a", "b", "c"]
    waiting = [jobs.submit(lambda send, who=who: ran.append(who), who) for who in order]
    go.set()
    for job in waiting:
        assert kinds(job)[-1] == "done"
    assert ran == ["a", "b", "c", "a", "a"]


@pytest.mark.parametrize(("others", "pause"), [(False, 0.1), (True, 0.3)])
def test_a_flood_of_images_leaves_time_to_others(others: bool, pause: float) -> None:
    jobs, times = JobQueue(Limits(running=1, uploads=9)), []
    if others:
        assert kinds(jobs.submit(lambda send: None, "b"))[-1] == "done"

    def work(send: SendEvent) -> None:
        start = time.monotonic()
        time.sleep(0.1)
        times.append((start, time.monotonic()))

    for job in [submit(jobs, work, "a", True) for _ in range(4)]:
        assert kinds(job)[-1] == "done"
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(times)]
    assert all(gap >= pause for gap in gaps)


def test_uploads_and_one_client_cannot_fill_the_queue() -> None:
    limits = Limits(running=1, waiting=5, client_waiting=3, uploads=2)
    jobs, go = JobQueue(limits), threading.Event()
    jobs.submit(lambda send: bool(go.wait(20)), "a")
    for _ in range(2):
        submit(jobs, lambda send: None, "a", True)
    with pytest.raises(BusyError):
        jobs.submit(lambda send: None, "b", True)
    with pytest.raises(BusyError):
        jobs.check_room("b", True)
    jobs.submit(lambda send: None, "a")
    with pytest.raises(BusyError):
        jobs.submit(lambda send: None, "a")
    for _ in range(2):
        jobs.submit(lambda send: None, "b")
    with pytest.raises(BusyError):
        jobs.submit(lambda send: None, "c")
    go.set()
    assert _idle(jobs)


def test_a_short_job_runs_alone_and_a_long_one_gets_company() -> None:
    jobs, go = JobQueue(Limits(running=2, alone=0.3)), threading.Event()
    jobs.submit(lambda send: bool(go.wait(20)))
    second = jobs.submit(lambda send: None)
    assert jobs.busy == (1, 1)
    assert kinds(second) == ["queued", "started", "done"]  # beside the first, which still runs
    assert _soon(lambda: jobs.busy == (1, 0))
    go.set()
    assert _idle(jobs)


def test_only_one_upload_runs_at_a_time() -> None:
    jobs, go = JobQueue(Limits(running=2, alone=0.0)), threading.Event()
    submit(jobs, lambda send: bool(go.wait(20)), upload=True)
    _soon(lambda: jobs.busy == (1, 0))
    submit(jobs, lambda send: None, upload=True)
    assert kinds(jobs.submit(lambda send: None))[-1] == "done"
    assert _soon(lambda: jobs.busy == (1, 1))
    go.set()
    assert _idle(jobs)


def test_an_image_is_decoded_while_another_job_runs() -> None:
    jobs, go, ran = JobQueue(Limits(running=1)), threading.Event(), []
    jobs.submit(lambda send: bool(go.wait(20)))

    def decode(send: SendEvent) -> Work:
        ran.append("decoded")
        return lambda send: ran.append("explained")

    upload = jobs.submit(decode, upload=True)
    _soon(lambda: ran == ["decoded"] and jobs.busy == (1, 1))
    go.set()
    assert kinds(upload) == ["queued", "started", "done"]
    assert ran == ["decoded", "explained"]


def test_a_broken_image_ends_its_job() -> None:
    def decode(send: SendEvent) -> Work:
        raise InputError("broken")

    jobs = JobQueue(SMALL)
    assert events(jobs.submit(decode, upload=True))[-1] == {"event": "error", "says": "broken"}
    assert _idle(jobs)


def test_the_end_of_the_server_stops_everything() -> None:
    def work(send: SendEvent) -> None:
        while True:
            torch.ones(1) + 1

    jobs = JobQueue(SMALL)
    running, waiting = jobs.submit(work), jobs.submit(work)
    jobs.cancel_all()
    assert events(running)[-1]["says"] == "cancelled"
    assert waiting.should_stop()
    assert _idle(jobs)


def _idle(jobs: JobQueue) -> bool:
    return _soon(lambda: jobs.busy == (0, 0))


def _soon(truth: Any) -> bool:
    ends = time.monotonic() + 10
    while not truth() and time.monotonic() < ends:
        time.sleep(0.01)
    assert truth()
    return True
