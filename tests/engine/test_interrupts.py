"""An interrupt at any moment leaves the model, torch and the thread as they were.

CPython 3.11 leaves exceptions on the stack of a thread that is interrupted inside C code, so every
test interrupts a thread of its own.
"""

from __future__ import annotations

import ctypes
import random
import sys
import threading
import time
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest
from torch import nn

import whyformer as wf
from tests.several import target_of
from tests.untouched import assert_equal, state_of_model, state_of_torch, used_model
from whyformer.models.families.tiny import tiny_inputs

# An interrupt that comes in a destructor or a callback is reported there and ends nothing.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
# Files whose scopes change something.
SCOPES = ("contextlib.py", "scope.py", "undo.py", "shared_scope.py", "torch_state.py", "quiet.py")
SCOPES = (*SCOPES, "plain_execution.py", "custom_functions.py", "checkpointing.py", "warnings.py")


class Interrupted(BaseException):
    """Stands for KeyboardInterrupt, which would end pytest."""


def in_own_thread(work: Callable[[], None]) -> None:
    """Run `work` in a new thread and raise what it raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(timeout=900)
    assert not thread.is_alive(), "the thread hangs"
    if errors:
        raise errors[0]


def state(model: nn.Module) -> dict[str, Any]:
    found = {**state_of_model(model), "torch": state_of_torch()}
    del found["torch"]["thread_count"]  # the one that interrupts
    return found


class Interrupter:
    """Interrupts the thread that makes it, once per `after`, from a thread of its own."""

    def __init__(self) -> None:
        self.victim = threading.get_ident()
        self.waiting, self.fired = threading.Event(), threading.Event()
        self.seconds: float | None = 0.0
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        while self.waiting.wait() and self.seconds is not None:
            self.waiting.clear()
            time.sleep(self.seconds)
            victim, error = ctypes.c_ulong(self.victim), ctypes.py_object(Interrupted)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(victim, error)
            self.fired.set()

    def interrupt(self, work: Callable[[], Any], seconds: float) -> bool:
        """Whether the interrupt came while `work` ran."""
        worked = False
        self.seconds = seconds
        self.fired.clear()
        try:
            self.waiting.set()
            work()
            worked = True
            while not self.fired.is_set():
                time.sleep(0.0002)
            for _ in range(3):  # it comes here, unless it came in code that ignores errors
                time.sleep(0.0002)
        except Interrupted:
            return not worked
        return False

    def end(self) -> None:
        self.seconds = None
        self.waiting.set()
        self.thread.join()


def interrupt_often(name: str, method: str, times: int, **options: Any) -> None:
    """Interrupt explanations of a model at random moments; each must leave everything alone."""
    model = used_model(name)
    inputs, target = tiny_inputs(model), target_of(name)

    def explain() -> Any:
        return wf.explain(inputs, model, method=method, target=target, **options).scores

    def work() -> None:
        expected = explain()
        duration = min(timeit.repeat(explain, number=1, repeat=3))
        before, moments, hits = state(model), random.Random(times), 0
        interrupter = Interrupter()
        try:
            for _ in range(times):
                hits += interrupter.interrupt(explain, moments.uniform(0, duration))
                assert_equal(state(model), before, f"{name} {method}")
        finally:
            interrupter.end()
        assert hits > times / 20, f"only {hits} interrupts came in time"
        assert_equal(explain(), expected)

    in_own_thread(work)


# -- at random moments -----------------------------------------------------------------------------

# Model and method, not as the parameters `name` and `method`: these would make a table of all.
CASES = [
    ("bert lrp_ah_ln", {}),
    ("bert gae", {}),
    ("gpt2 libragrad", {"memory": "checkpoint"}),
    ("llama attn_lrp", {}),
    ("lxmert gae", {}),
    ("vit blend", {}),
    ("vit blend", {"memory": "checkpoint"}),
    ("t5 transformer_attribution", {}),
    ("bert occlusion", {}),
]


@pytest.mark.parametrize(("case", "options"), CASES[:3])
def test_some_interrupts_at_random_moments(case: str, options: Any) -> None:
    interrupt_often(*case.split(), 25, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "options"), CASES)
def test_two_thousand_interrupts_at_random_moments(case: str, options: Any) -> None:
    interrupt_often(*case.split(), 250, **options)


# -- at each step of the scopes --------------------------------------------------------------------


@contextmanager
def interrupted_at(step: int) -> Iterator[list[int]]:
    """Raise at one of the moments in the scopes at which Python runs signal handlers.

    These are the start of a function and the return of a C function. The list counts them.
    """
    count = [0]

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename.endswith(SCOPES):
            count[0] += 1
            if count[0] == step:
                raise Interrupted

    sys.setprofile(watch)
    try:
        yield count
    finally:
        sys.setprofile(None)


def interrupt_each(name: str, method: str, stride: int, **options: Any) -> None:
    model = used_model(name)
    inputs, target = tiny_inputs(model), target_of(name)

    def explain() -> Any:
        return wf.explain(inputs, model, method=method, target=target, **options).scores

    def work() -> None:
        expected = explain()
        with interrupted_at(0) as count:
            explain()
        before = state(model)
        for step in range(1, count[0], stride):
            try:
                with interrupted_at(step):
                    explain()
            except Interrupted:
                pass
            assert_equal(state(model), before, f"{name} {method} at step {step}")
        assert_equal(explain(), expected)

    in_own_thread(work)


@pytest.mark.parametrize(("case", "options"), CASES[:3])
@pytest.mark.slow
def test_interrupts_at_some_steps_of_the_scopes(case: str, options: Any) -> None:
    interrupt_each(*case.split(), 41, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "options"), CASES)
def test_interrupts_at_each_third_step_of_the_scopes(case: str, options: Any) -> None:
    interrupt_each(*case.split(), 3, **options)
