"""Every engine: all chunks once, failures as values, workers that die, inputs that are streamed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.workers.jobs import Square
from whyformer.errors import ModelError, OptionError
from whyformer.workers import (
    ATTEMPTS,
    LATER,
    Chunk,
    EngineError,
    EngineOptions,
    Finished,
    on_ray,
    open_engine,
    order,
)

RAY = (pytest.mark.slow, pytest.mark.own_process)
ENGINES = [
    pytest.param(EngineOptions(), id="local"),
    pytest.param(EngineOptions(workers=2), id="processes", marks=pytest.mark.slow),
    pytest.param(EngineOptions("ray", 2), id="ray", marks=RAY),
]
APART = ENGINES[1:]
# Of Ray itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def started(request: pytest.FixtureRequest) -> None:
    """Start Ray for the tests that use it."""
    call = getattr(request.node, "callspec", None)
    options = call.params.get("options") if call else None
    if isinstance(options, EngineOptions) and options.engine == "ray":
        request.getfixturevalue("ray_here")


@pytest.fixture
def ray_here() -> Iterator[None]:
    ray = pytest.importorskip("ray")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        log_to_driver=False,
    )
    yield
    ray.shutdown()


def run(options: EngineOptions, payloads: list[Any], task: Any = None) -> dict[str, Finished]:
    chunks = [Chunk(str(i), payload) for i, payload in enumerate(payloads)]
    found = list(open_engine(options).run(task or Square(), iter(chunks), len(chunks)))
    assert len({one.name for one in found}) == len(found) == len(chunks)
    return {one.name: one for one in found}


@pytest.mark.parametrize("options", ENGINES)
def test_failures_are_values_and_the_rest_completes(options: EngineOptions) -> None:
    found = run(options, [1, 2, "raise", "refuse", 3, "threads"])
    assert [found[str(i)].result for i in (0, 1, 4)] == [1, 4, 9]
    assert found["5"].result[0] == 1
    failure = found["2"].failure
    assert failure is not None
    assert (failure.error, failure.attempts) == ("RuntimeError: it burns", ATTEMPTS)
    assert "in work" in failure.details
    refused = found["3"].failure
    assert refused is not None
    assert (refused.error, refused.attempts) == ("this input is bad", 1)


@pytest.mark.parametrize("options", APART)
def test_a_worker_that_dies(options: EngineOptions, tmp_path: Path) -> None:
    found = run(options, [1, "die", 2, "die once", 3], Square(tmp_path))
    assert [found[str(i)].result for i in (0, 2, 3, 4)] == [1, 4, "die once", 9]
    failure = found["1"].failure
    assert failure is not None
    assert failure.died
    assert failure.attempts == ATTEMPTS
    assert "died 3 times" in failure.error


@pytest.mark.slow
@pytest.mark.own_process
@pytest.mark.usefixtures("ray_here")
def test_a_node_takes_the_dataset_down(monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray")
    whole = on_ray._results
    ends_after = [2, 1, 100]

    def ends(*arguments: Any) -> Iterator[Any]:
        left = ends_after.pop(0)
        for one in whole(*arguments):
            if not left:
                raise ray.exceptions.ActorDiedError
            left -= 1
            yield one

    monkeypatch.setattr(on_ray, "_results", ends)
    found = run(EngineOptions("ray", 1), list(range(9)))
    assert [found[str(number)].result for number in range(9)] == [n * n for n in range(9)]
    assert not ends_after
    ends_after += [0, 0, 0]
    with pytest.raises(EngineError, match=r"stopped the work 3 times.*Finished work is kept"):
        run(EngineOptions("ray", 1), [1])


@pytest.mark.parametrize("options", ENGINES)
def test_inputs_are_pulled_as_workers_are_free(options: EngineOptions) -> None:
    pulled = 0

    def chunks() -> Iterator[Chunk]:
        nonlocal pulled
        for number in range(60):
            pulled += 1
            yield Chunk(str(number), number)

    running = iter(open_engine(options).run(Square(), chunks(), 60))
    done = 0
    for _ in running:
        done += 1
        assert pulled <= done + 4 * options.workers + 1
    assert done == 60


@pytest.mark.parametrize("options", ENGINES)
def test_chunks_that_depend_on_results(options: EngineOptions) -> None:
    """Two rounds: the numbers of the second are the results of the first."""
    results: dict[str, int] = {}

    def chunks() -> Iterator[Chunk]:
        yield from (Chunk(f"first {number}", number) for number in range(5))
        while len(results) < 5:
            yield LATER
        yield from (Chunk(f"second {name}", value) for name, value in sorted(results.items()))

    for one in open_engine(options).run(Square(), chunks(), 20):
        results[one.name] = one.result
    assert sorted(results.values()) == [0, 0, 1, 1, 4, 9, 16, 16, 81, 256]


@pytest.mark.parametrize("options", ENGINES)
def test_fewer_chunks_than_was_said(options: EngineOptions) -> None:
    found = list(open_engine(options).run(Square(), iter([Chunk("a", 2)]), 7))
    assert [one.result for one in found] == [4]


@pytest.mark.parametrize("options", ENGINES)
def test_a_task_that_cannot_open(options: EngineOptions) -> None:
    with pytest.raises(ModelError, match=r"this model is not there. Look elsewhere"):
        run(options, [1], Square(refuses="ours"))
    error = KeyError if options.workers == 1 else EngineError
    with pytest.raises(error, match="nothing"):
        run(options, [1], Square(refuses="foreign"))


def test_threads_are_restored() -> None:
    before = torch.get_num_threads()
    found = run(EngineOptions(threads=2), ["threads"])
    assert found["0"].result[0] == 2
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_two_processes_work_side_by_side_and_end() -> None:
    found = run(EngineOptions(workers=2), ["slow"] * 6)
    pids = {one.result for one in found.values()}
    assert len(pids) == 2
    assert os.getpid() not in pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"engine": "dask"}, "'dask' is unknown.*local, ray"),
        ({"workers": 0}, "workers=0 is not"),
        ({"workers": True}, "workers=True is not"),
        ({"threads": 0}, "threads=0 is not"),
        ({"address": "x:1"}, "needs the engine ray"),
        ({"runtime_env": {"pip": []}}, "needs the engine ray"),
    ],
)
def test_bad_options(options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        EngineOptions(**options)


def test_an_address_where_no_cluster_is() -> None:
    start = time.monotonic()
    with pytest.raises(EngineError, match=r"no Ray cluster at '127.0.0.1:1'.*ray start --head"):
        run(EngineOptions("ray", 1, address="127.0.0.1:1"), [1])
    assert time.monotonic() - start < 60


def test_a_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EngineError, match=r"Install whyformer\[ray\]"):
        run(EngineOptions("ray"), [1])


@pytest.mark.parametrize("options", APART)
def test_a_worker_with_other_code_refuses(
    options: EngineOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after an edit during a run: its units would have other names."""
    monkeypatch.setattr(order, "code_fingerprint", lambda: "of another file")
    with pytest.raises(EngineError, match="a worker has other code of whyformer"):
        run(options, [1])
