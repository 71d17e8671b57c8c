"""Tests that run in a process of their own, apart from what other tests load.

Ray ends a process that cannot reach its cluster for a minute, without a word, and its threads stay
after `ray.shutdown()`. In pytest's process that would be the end of whatever test runs then.
A package that some tests import with stand-ins is still there for the tests after them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any, Literal

import pytest

INSIDE = "WHYFORMER_TEST_OWN_PROCESS"
SECONDS = 900
SHOWN = 20_000  # characters of its output


def runs_apart(item: pytest.Item) -> bool:
    """Whether a test is marked `own_process` and this is not that process."""
    return item.get_closest_marker("own_process") is not None and INSIDE not in os.environ


def run_apart(item: pytest.Item, following: pytest.Item | None) -> None:
    """Run a test in another process, and report what happened to it there."""
    hooks = item.ihook
    hooks.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    start = time.monotonic()
    code, output = _run(item)
    outcome: Literal["passed", "failed", "skipped"] = "passed" if code == 0 else "failed"
    text: Any = f"{output}\nexit code {code}" if code else None
    if code == 0 and "1 skipped" in output:
        outcome, text = "skipped", (str(item.path), None, "skipped in its own process")
    seconds = time.monotonic() - start
    report = pytest.TestReport(
        item.nodeid, item.location, {}, outcome, text, "call", duration=seconds
    )
    hooks.pytest_runtest_logreport(report=report)
    hooks.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    # The test before left what it shares with this one: its module, its fixtures.
    item.session._setupstate.teardown_exact(following)


def _run(item: pytest.Item) -> tuple[int | str, str]:
    """The exit code of the other process, and the end of its output."""
    # Without the variables of pytest and pytest-xdist that tell a process that it is a worker.
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    try:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-n0",
                "-m",
                "",
                "-pno:cacheprovider",
                item.nodeid,
            ],
            cwd=item.config.rootpath,
            env={**inherited, INSIDE: "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        return f"none after {SECONDS} s", str(error.stdout or "")[-SHOWN:]
    return done.returncode, done.stdout[-SHOWN:]
