"""Run code with torchao in a process of its own: importing it prints to stderr and warns."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(sys.prefix, "torchao")  # `make venv` installs it there
HAS_TORCHAO = FOLDER.is_dir() or importlib.util.find_spec("torchao") is not None
needs_torchao = pytest.mark.skipif(not HAS_TORCHAO, reason="torchao is not installed")

_START = """
import json, warnings
warnings.simplefilter("ignore")
"""


def run_with_torchao(code: str) -> Any:
    """Return what the code leaves in `found`, which must fit into JSON."""
    done = subprocess.run(
        [sys.executable, "-c", f"{_START}\n{code}\nprint(json.dumps(found))"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(FOLDER)])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])
