"""A process that is forked or spawned while threads explain can explain itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import whyformer as wf
from tests.untouched import assert_equal, state_of_model, used_model
from whyformer.models.families.tiny import tiny_inputs

SECONDS = 60  # for one tiny explanation in a child


def explain(model: nn.Module) -> torch.Tensor:
    return wf.explain(tiny_inputs(model), model, target=1, method="gae").scores


def fork_and_explain(model: nn.Module, expected: torch.Tensor, before: object) -> int:
    """The exit code of a child that checks the model and explains it; -14 if it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
        child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        code = 1
        try:
            assert_equal(state_of_model(model), before)
            code = 2
            code = 0 if torch.equal(explain(model), expected) else 3
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def two_torch_threads() -> Iterator[None]:
    """Let torch use two threads per operation, which a child does not have."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_torch_threads")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("threads", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_a_child_that_is_forked_while_threads_explain(threads: int) -> None:
    model = used_model("bert")
    expected, before = explain(model), state_of_model(model)
    ends = threading.Event()

    def work() -> None:
        while not ends.is_set():
            explain(model)

    workers = [threading.Thread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    codes = []
    try:
        for number in range(6):
            time.sleep(0.005 * (1 + 3 * number))  # in other moments of an explanation
            codes.append(fork_and_explain(model, expected, before))
    finally:
        ends.set()
        for worker in workers:
            worker.join()
    assert codes == [0] * 6


SPAWNED = """
import multiprocessing, threading
import whyformer as wf

def work(_):
    return wf.explain("a gripping film").labels

if __name__ == "__main__":
    ends = threading.Event()
    def explain():
        while not ends.is_set():
            wf.explain("a dull film")
    threading.Thread(target=explain).start()
    try:
        with multiprocessing.get_context("spawn").Pool(2) as pool:
            print(pool.map(work, range(2)))
    finally:
        ends.set()
"""


@pytest.mark.slow
def test_children_that_are_spawned(tmp_path: pytest.TempPathFactory) -> None:
    script = tmp_path / "spawned.py"  # type: ignore[operator]
    script.write_text(SPAWNED, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=300, check=False
    )
    assert ran.stdout.strip() == "[('positive',), ('positive',)]", ran.stderr
