"""docs/architecture.md against the code: its hop lists are traced, its names exist."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import whyformer
from tests.test_imports import ALLOWED, CHAIN, FILES, part_of

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def traced() -> dict[str, Any]:
    """The hop lists and problems of a fresh process: other tests leave models and caches behind."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "trace.py"), "--json"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def written(name: str) -> str:
    """The hop list between the markers of the page."""
    match = re.search(rf"<!-- {name} -->\n(.*?)\n<!-- /{name} -->", PAGE, re.S)
    assert match is not None, f"docs/architecture.md has no hop list of one {name}"
    return match[1]


@pytest.mark.slow
def test_no_call_points_the_wrong_way_and_nothing_is_loaded_twice(traced: dict[str, Any]) -> None:
    assert traced["problems"] == []


@pytest.mark.parametrize("name", ["explanation", "evaluation"])
@pytest.mark.slow
def test_the_hop_lists_are_those_of_the_code(traced: dict[str, Any], name: str) -> None:
    assert written(name) == traced["lists"][name], "run `python docs/trace.py --write`"


def test_every_function_of_the_hop_lists_exists() -> None:
    named = re.findall(r"→ `([\w/]+)\.([\w.]+)\(", written("explanation") + written("evaluation"))
    assert named
    for path, function in dict.fromkeys(named):
        module = "whyformer" if path == "whyformer" else f"whyformer.{path.replace('/', '.')}"
        found: Any = importlib.import_module(module)
        for name in function.split("."):
            found = getattr(found, name)
        assert callable(found), f"{path}.{function}"


def test_the_table_of_folders_names_every_part() -> None:
    table = PAGE.partition("## The house")[2].partition("\n## ")[0]
    named = set(re.findall(r"^\| `(\w+)(?:/|\.py)` \|", table, re.M))
    parts = {part_of(file) for file in FILES} - {"__init__", "__main__"}
    assert parts <= named <= ALLOWED.keys()


def test_the_order_of_imports_is_the_one_that_is_tested() -> None:
    order = PAGE.partition("## Who may import whom")[2].partition("\n## ")[0]
    line = next(line for line in order.splitlines() if "←" in line)
    assert tuple(re.findall(r"`(\w+)`", line)) == CHAIN
    assert set(CHAIN) <= ALLOWED.keys()


def test_every_file_that_the_page_names_exists() -> None:
    package = Path(whyformer.__file__).parent
    for name in set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE)):
        assert (package / name).is_file() or (ROOT / name).is_file(), name
