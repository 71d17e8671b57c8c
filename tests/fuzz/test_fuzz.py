"""A short run of the fuzzer; `make fuzz` runs a long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


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
