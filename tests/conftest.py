"""Settings of every test: threads, no network, fixed random numbers, which tests are slow."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

# Before torch and transformers are imported: both read these once.
os.environ.update(
    HF_HUB_OFFLINE="1",
    TOKENIZERS_PARALLELISM="false",
    # One thread in each of two workers on two cores, unless .ci/run asks for more.
    OMP_NUM_THREADS=os.environ.get("WHYFORMER_TEST_THREADS", "1"),
    MPLBACKEND="agg",
    # Ray's workers would wait for the other tests.
    RAY_worker_niceness="0",
    # Processes that a test starts import the same source.
    PYTHONPATH=str(Path(__file__).parent.parent / "src"),
)

import hypothesis
import pytest
import torch

from tests.own_process import run_apart, runs_apart
from tests.tiers import is_left_out, is_slow
from whyformer.attribution import Reason
from whyformer.pipeline import explain_batch

pytest_plugins = ["tests.small_models"]

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

# `make test` tries the same examples every time; `make test-all` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("new", deadline=None)
hypothesis.settings.load_profile("same")


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what -m "not slow" does not name
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the slow tests, and deselect those that run in no tier."""
    left_out = [item for item in items if is_left_out(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if not is_left_out(item)]
    for item in items:
        if is_slow(item):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Give a layer that a test makes the same weights in every run."""
    torch.manual_seed(0)


# Addresses of this machine. A test whose servers listen on another one adds it.
THIS_MACHINE = {"127.0.0.1", "::1", "localhost"}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a test that connects to another machine."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in THIS_MACHINE:
            raise AssertionError(f"a test tried to reach {address}: tests use no network")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


@pytest.fixture
def no_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the plain pass that checks an explanation, for tests that count passes.

    tests/test_trust.py counts that pass itself.
    """
    unchecked = Reason("forward", "ok", "Not compared.")
    monkeypatch.setattr(explain_batch, "forward_reason", lambda *arguments: unchecked)


def _folder(variable: str) -> Path:
    """The folder that an environment variable names; skip the test if it is not set."""
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set")
    folder = Path(path)
    assert folder.is_dir(), f"{variable} names {path!r}, which is no folder"
    return folder


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test marked `own_process` there."""
    if not runs_apart(item):
        return None
    run_apart(item, nextitem)
    return True


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test marked `data` if WHYFORMER_DATA is not set."""
    if item.get_closest_marker("data"):
        _folder("WHYFORMER_DATA")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real datasets, from WHYFORMER_DATA."""
    return _folder("WHYFORMER_DATA")
