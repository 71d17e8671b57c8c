"""A short run of the fuzzer; `make fuzz` runs a long one."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from tests.fuzz import fuzz
from tests.fuzz.worker import READ, Tried


@pytest.mark.slow
def test_a_short_run_finds_nothing() -> None:
    """In processes of its own: a pytest worker holds more memory than the fuzzer may."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "tests.fuzz.fuzz",
            "--cases",
            "1500",
            "--seed",
            "1",
            "--workers",
            "1",
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        cwd=Path(__file__).parent.parent.parent,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def bad_process(line: Connection, seed: int, numbers: range) -> None:
    """Hangs at case 1 and dies at case 2; the others are fine."""
    for number in numbers:
        line.send(number)
        if number == 1:
            time.sleep(600)
        if number == 2:
            os._exit(9)
        line.send(Tried(number, "image", READ, "", 0.0, 0.0))
    line.close()


@pytest.mark.slow
def test_a_case_that_hangs_or_kills_its_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "serve", bad_process)
    monkeypatch.setattr(fuzz, "HANG", 1.0)
    monkeypatch.setattr(fuzz, "FIRST", 60.0)
    report = fuzz.fuzz(4, 0, 1, lambda done: None)
    assert report.cases == 4
    assert report.outcomes[READ] == 2
    assert [one.partition(": ")[2] for one in report.problems] == ["no end after 1 s", "died (9)"]
