"""Let the scripts of benchmarks/ import each other, as when one of them is run."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(autouse=True)
def beside_the_scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Remove modules such as `memory` or `report` again after a test."""
    monkeypatch.syspath_prepend(str(SCRIPTS))
    yield
    for name in [path.stem for path in SCRIPTS.glob("*.py")]:
        sys.modules.pop(name, None)
