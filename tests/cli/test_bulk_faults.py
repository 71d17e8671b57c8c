"""`explain --input` on a full disk, killed while it writes, and beside another run."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whyformer
from tests.cli.test_bulk_explain import PIECES, TEXTS, refused, write
from tests.faulty_disk import end_of, fault_at, kill_self, no_space, read_only, start_child
from tests.wordpiece import wordpiece_of
from whyformer.cli.score_writer import ScoreWriter
from whyformer.models.load import Loaded
from whyformer.storage.folder_lock import FolderLock

Run = Callable[..., Any]
LINE = "explain --input in.jsonl --batch-size 1 --method gae --out"
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # os.fork
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model in the place of every other."""
    build: Any = whyformer.families()["bert"].tiny
    loaded = Loaded(build(), wordpiece_of(PIECES), "tiny")
    monkeypatch.setattr("whyformer.cli.bulk_explain.load_model", lambda *_: loaded)


def whole(run: Run, out: str, count: int) -> tuple[bytes, int]:
    """The file of a run without faults, which is deleted again, and how often it was flushed."""
    write("in.jsonl", *({"text": text} for text in TEXTS[:count]))
    with fault_at(0, no_space) as seen:
        done = run(f"{LINE} {out}")
    assert done.exit_code == 0, done.output
    content = Path(out).read_bytes()
    Path(out).unlink()
    return content, seen.count


def finish(run: Run, out: str, content: bytes) -> None:
    """Run again, and find the same bytes and nothing else."""
    again = run(f"{LINE} {out}")
    assert again.exit_code == 0, again.output
    assert Path(out).read_bytes() == content
    assert sorted(os.listdir()) == ["in.jsonl", out]  # noqa: PTH208
    Path(out).unlink()


@pytest.mark.parametrize("out", ["o.jsonl", "o.parquet"])
@pytest.mark.slow
def test_a_disk_that_fills_up_at_every_file(run: Run, out: str) -> None:
    content, files = whole(run, out, 18)
    assert files == 6  # facts, two parts with a checksum each, and the file
    for number in range(1, files + 1):
        with fault_at(number, no_space):
            refused(run(f"{LINE} {out}"), "No space left on device", "the same command again")
        assert not Path(out).exists()
        assert not [one for one in Path(f"{out}.parts").glob(".*") if one.name != ".lock"]
        finish(run, out, content)


def test_a_full_disk_keeps_finished_parts(run: Run) -> None:
    content, _ = whole(run, "o.jsonl", 20)
    with fault_at(4, no_space):  # the second part
        refused(run(f"{LINE} o.jsonl"), "No space left on device")
    assert "16 of them finished by an earlier run" in run(f"{LINE} o.jsonl").stderr
    assert Path("o.jsonl").read_bytes() == content


def test_a_disk_that_becomes_read_only(run: Run) -> None:
    content, _ = whole(run, "o.jsonl", 3)
    with fault_at(1, read_only):
        refused(run(f"{LINE} o.jsonl"), "'o.jsonl' cannot be written", "Read-only file system")
    finish(run, "o.jsonl", content)


@needs_fork
@pytest.mark.parametrize("out", ["o.jsonl", "o.parquet"])
@pytest.mark.slow
def test_killed_at_every_file(run: Run, out: str) -> None:
    content, files = whole(run, out, 18)
    for number in range(1, files + 1):

        def killed(number: int = number) -> None:
            with fault_at(number, kill_self):
                run(f"{LINE} {out}")

        assert end_of(start_child(killed)) == -signal.SIGKILL
        assert not Path(out).exists()
        finish(run, out, content)


def test_a_run_that_was_stopped_at_once_does_not_name_the_parts_of_another(run: Run) -> None:
    """The facts of the first run stayed, with the parts of the second."""
    write("in.jsonl", {"text": "dull"})
    with fault_at(2, no_space):  # the facts are written, no part is
        refused(run("explain --input in.jsonl --out o.jsonl --method rollout"))
    with fault_at(4, no_space):  # facts, part and checksum are written, the file is not
        refused(run(f"{LINE} o.jsonl"), "No space")
    assert json.loads(Path("o.jsonl.parts/facts.json").read_text("utf-8"))["method"] == "gae"
    refused(run("explain --input in.jsonl --out o.jsonl --method rollout"), "another run")
    assert run(f"{LINE} o.jsonl").exit_code == 0


# -- two runs --------------------------------------------------------------------------------------


def test_a_second_run_is_refused_while_the_first_writes(run: Run) -> None:
    content, _ = whole(run, "o.jsonl", 3)
    folder = Path("o.jsonl.parts")
    folder.mkdir()
    first = FolderLock(folder)
    assert first.acquire()
    assert first.is_held
    refused(
        run(f"{LINE} o.jsonl"), "another run is writing to 'o.jsonl.parts'", "Wait until it has"
    )
    first.release()
    assert not first.is_held
    finish(run, "o.jsonl", content)


def test_a_second_run_that_comes_between_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both begin without a folder; the other one makes it first."""
    content, _ = whole(run, "o.jsonl", 3)
    other = ScoreWriter(Path("o.jsonl"), {})
    add = ScoreWriter.add

    def late(self: ScoreWriter, number: int, rows: Any) -> None:
        add(other, 0, [])
        add(self, number, rows)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreWriter, "add", late)
        refused(run(f"{LINE} o.jsonl"), "another run is writing")
    other.close()
    refused(run(f"{LINE} o.jsonl"), "holds parts of another run")
    shutil.rmtree("o.jsonl.parts")
    finish(run, "o.jsonl", content)


@needs_fork
@pytest.mark.slow
def test_two_runs_at_once(run: Run) -> None:
    """One of them writes the file; the other is refused, or writes the same bytes after it."""
    content, _ = whole(run, "o.jsonl", 18)
    for _ in range(3):
        ended = {end_of(child) for child in [start_child(lambda: check_one(run)) for _ in range(2)]}
        assert ended == {0}
        assert Path("o.jsonl").read_bytes() == content
        assert not Path("o.jsonl.parts").exists()
        Path("o.jsonl").unlink()


def test_a_folder_that_another_run_deletes_just_now(run: Run, monkeypatch: Any) -> None:
    """Between making the folder and locking it: the other run has ended."""
    content, _ = whole(run, "o.jsonl", 18)
    acquire, deleted = FolderLock.acquire, []

    def after_deletion(self: FolderLock) -> bool:
        if len(deleted) < 2:
            deleted.append(self.folder)
            self.folder.rmdir()
        return acquire(self)

    monkeypatch.setattr(FolderLock, "acquire", after_deletion)
    done = run(f"{LINE} o.jsonl")
    assert done.exit_code == 0, done.output
    assert len(deleted) == 2
    assert Path("o.jsonl").read_bytes() == content


def check_one(run: Run) -> None:
    done = run(f"{LINE} o.jsonl")
    told = "another run is writing" in done.stderr or "Run the same command again" in done.stderr
    assert done.exit_code == 0 or (done.exit_code == 2 and told), done.output


def test_parts_that_are_deleted_during_the_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    content, _ = whole(run, "o.jsonl", 20)
    add = ScoreWriter.add

    def deleting(self: ScoreWriter, number: int, rows: Any) -> None:
        if number == 1:
            shutil.rmtree(self.folder)
        add(self, number, rows)

    with monkeypatch.context() as patch:
        patch.setattr(ScoreWriter, "add", deleting)
        refused(run(f"{LINE} o.jsonl"), "'o.jsonl.parts' was deleted", "Run the same command again")
    finish(run, "o.jsonl", content)
