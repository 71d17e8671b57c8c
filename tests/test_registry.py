"""Registries scan their folder once, for all threads, and refuse a name that is taken."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from whyformer.errors import UnknownNameError, WhyformerError
from whyformer.methods import methods
from whyformer.models.families import families
from whyformer.registry import Registry, nearest

_numbers = count()

# Each entry registers itself, and notes that it was imported; slowly, so that threads collide.
ENTRY = """
import time
from {package}.shelf import shelf
time.sleep(0.01)
shelf.register("{name}", "{name} itself")
"""
SHELF = """
from whyformer.registry import Registry
shelf = Registry("book", "{package}")
"""


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[str]]:
    """A registry whose folder has three entries that are not imported yet."""
    package = f"shelf_of_test_{next(_numbers)}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "shelf.py").write_text(SHELF.format(package=package), encoding="utf-8")
    for name in ("cherry", "apple", "banana"):
        text = ENTRY.format(package=package, name=name)
        (folder / f"book_{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield __import__(f"{package}.shelf", fromlist=["shelf"]).shelf
    for name in [name for name in sys.modules if name.startswith(package)]:
        del sys.modules[name]


def test_a_file_in_the_folder_is_enough(shelf: Registry[str]) -> None:
    assert shelf["apple"] == "apple itself"
    assert isinstance(shelf, Mapping)
    assert list(shelf) == ["apple", "banana", "cherry"], "sorted, whatever the order of imports"
    assert len(shelf) == 3
    assert dict(shelf) == {name: f"{name} itself" for name in shelf}
    assert list(shelf.values()) == [shelf[name] for name in shelf]


@pytest.mark.parametrize("question", ["contains", "iter", "len", "getitem", "get"])
def test_whatever_is_asked_first_sees_all(shelf: Registry[str], question: str) -> None:
    answers = {
        "contains": lambda: "cherry" in shelf,
        "iter": lambda: list(shelf) == ["apple", "banana", "cherry"],
        "len": lambda: len(shelf) == 3,
        "getitem": lambda: shelf["cherry"] == "cherry itself",
        "get": lambda: shelf.get("cherry") == "cherry itself",
    }
    assert answers[question]()


def test_it_cannot_be_written_to(shelf: Registry[str]) -> None:
    with pytest.raises(TypeError):
        shelf["apple"] = "another"  # type: ignore[index]
    with pytest.raises(TypeError):
        del shelf["apple"]  # type: ignore[attr-defined]


def test_a_name_can_be_taken_once(shelf: Registry[str]) -> None:
    assert "apple" in shelf
    with pytest.raises(ValueError, match="book 'apple' is registered twice"):
        shelf.register("apple", "another")
    assert shelf["apple"] == "apple itself"


def test_register_returns_the_entry(shelf: Registry[str]) -> None:
    entry = "fig itself"
    assert shelf.register("fig", entry) is entry
    assert "fig" in shelf


def test_unknown_names(shelf: Registry[str]) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shelf["aple"]
    said = str(caught.value)
    assert "no book called 'aple'" in said
    assert "Did you mean 'apple'?" in said
    assert said.endswith("Did you mean 'apple'? Choose one of apple, banana, cherry.")
    assert caught.value.argument == "book"
    assert isinstance(caught.value, KeyError)
    assert isinstance(caught.value, WhyformerError)
    assert "aple" not in shelf
    assert shelf.get("aple") is None


@pytest.mark.parametrize("name", [None, 3, ("apple",)])
def test_names_that_are_no_names(shelf: Registry[str], name: object) -> None:
    with pytest.raises(UnknownNameError, match="there is no book called"):
        shelf[name]  # type: ignore[index]


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert nearest("zzz", ["apple", "banana"]) == ""
    assert nearest("banan", ["apple", "banana"]) == " Did you mean 'banana'?"
    assert nearest("anything", []) == ""


def test_threads_that_ask_at_once_all_see_all(shelf: Registry[str]) -> None:
    start = threading.Barrier(8)
    seen: list[object] = []

    def ask() -> None:
        start.wait()
        try:
            seen.append(list(shelf))
        except Exception as error:
            seen.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert seen == [["apple", "banana", "cherry"]] * 8


def test_threads_that_ask_for_methods_first_thing_in_a_process() -> None:
    """The real registries, in a process where nothing has been scanned yet."""
    program = """
import threading
import whyformer as wf
start, seen = threading.Barrier(6), []
def ask(question):
    start.wait()
    seen.append(tuple(question()))
questions = [wf.methods, wf.families] * 3
threads = [threading.Thread(target=ask, args=(question,)) for question in questions]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(seen) == 6 and len(set(seen)) == 2, seen
assert all(seen), seen
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)


@pytest.mark.parametrize("registry", [methods, families], ids=["methods", "families"])
def test_an_entry_is_called_what_its_file_is_called(registry: Registry[object]) -> None:
    folder = Path(sys.modules[registry.package].__file__ or "").parent
    files = {path.stem for path in folder.glob("*.py")}
    assert len(registry) > 5
    assert set(registry) <= files
    assert all(entry.name == name for name, entry in registry.items())  # type: ignore[attr-defined]
