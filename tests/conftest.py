"""What every test gets: one thread each, no network, and the folders of real data if any."""

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
    # Also for what a test starts as a process of its own.
    PYTHONPATH=str(Path(__file__).parent.parent / "src"),
)

import pytest
import torch

pytest_plugins = ["tests.small_models"]

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Nothing; a layer that a test makes has the same weights in every run."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; a connection that leaves this machine fails the test that asked for it."""
    connect = socket.socket.connect

    def local_only(self: socket.socket, address: Any) -> None:
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"a test tried to reach {address}: tests use no network")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local_only)


def _folder(variable: str) -> Path:
    """The existing folder that an environment variable names, or the test is skipped."""
    named = os.environ.get(variable)
    if not named:
        pytest.skip(f"{variable} is not set")
    folder = Path(named)
    assert folder.is_dir(), f"{variable} names {named!r}, which is no folder"
    return folder


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Nothing; a test marked `data` is skipped where there is none."""
    if item.get_closest_marker("data"):
        _folder("WHYFORMER_DATA")


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real datasets, from WHYFORMER_DATA."""
    return _folder("WHYFORMER_DATA")
