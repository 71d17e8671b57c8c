"""Evaluations on a full disk, killed while they write, and two of them in one folder."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evaluation.making import classifier, plan, sentences
from tests.faulty_disk import end_of, fault_at, kill_self, no_space, read_only, start_child
from whyformer.evaluation import sample_batches
from whyformer.evaluation.evaluate import evaluate
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.store import PARTS, Store, StoreError

SAMPLES = 9
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # os.fork
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limit batches to four samples, so that few samples make several shards."""
    for name in ("SAMPLES", "IMAGES", "CHUNK"):
        monkeypatch.setattr(sample_batches, name, 4)


def run(folder: Path) -> dict[str, bytes]:
    """Evaluate into the folder; return its results and the names of its shards."""
    evaluate(classifier(), sentences(SAMPLES), plan(), folder, report=False)
    found = {name: (folder / name).read_bytes() for name in (RESULTS, SETTINGS, "table.md")}
    shards = sorted(file.name for file in (folder / PARTS).iterdir() if file.name[0] != ".")
    return {**found, "shards": "\n".join(shards).encode()}


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    """The files of a run without faults."""
    return run(tmp_path / "whole")


def count_files(folder: Path) -> int:
    with fault_at(0, no_space) as seen:
        run(folder)
    shutil.rmtree(folder)
    return seen.count


@pytest.mark.slow
def test_a_disk_that_fills_up_at_every_file(tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "run"
    for number in range(1, count_files(out) + 1):
        with (
            fault_at(number, no_space),
            pytest.raises(StoreError, match=r"No space left .* finished rows are kept") as found,
        ):
            run(out)
        assert "\n" not in str(found.value)
        kept = len(Store(out).done)
        assert f"The {kept} finished rows" in str(found.value)
        assert run(out) == whole
        shutil.rmtree(out)


def test_a_disk_that_becomes_read_only(tmp_path: Path, whole: dict[str, bytes]) -> None:
    with fault_at(3, read_only), pytest.raises(StoreError, match="Read-only file system"):
        run(tmp_path / "run")
    assert run(tmp_path / "run") == whole


@needs_fork
@pytest.mark.slow
def test_killed_at_every_file(tmp_path: Path, whole: dict[str, bytes]) -> None:
    out = tmp_path / "run"
    for number in range(1, count_files(out) + 1):

        def killed(number: int = number) -> None:
            with fault_at(number, kill_self):
                run(out)

        assert end_of(start_child(killed)) == -signal.SIGKILL
        assert run(out) == whole
        shutil.rmtree(out)


@needs_fork
@pytest.mark.slow
def test_two_evaluations_at_once_in_one_folder(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """Each has a ledger of its own, and equal shards have equal names: nothing is lost or twice."""
    out = tmp_path / "run"

    def check() -> None:
        run(out)

    works: list[Callable[[], None]] = [check, check, check]
    assert [end_of(child) for child in map(start_child, works)] == [0, 0, 0]
    units = [row["unit"] for row in Results.read(out).rows]
    assert len(units) == len(set(units)) == len(Store(out).done)
    assert not Store(out).damage
    assert run(out) == whole
