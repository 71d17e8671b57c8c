"""Finished rows on disk: files are complete or absent, also after errors and kills."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from whyformer.errors import InputError
from whyformer.evaluation import store as module_under_test
from whyformer.evaluation.results import RESULTS, SETTINGS, Results
from whyformer.evaluation.store import PARTS, Store, StoreError
from whyformer.storage.ledger import LEDGER


def row(name: str, value: float = 0.5, **more: Any) -> dict[str, Any]:
    return {
        "unit": name,
        "sample": "dev/1",
        "method": "gae",
        "target": "predicted",
        "metric": "auac",
        "value": value,
        "explained": 1,
        "label": None,
        "curve": [0.25, value],
        "found": None,
        "there": None,
        "convention": "by hand",
        "steps": [0.0, 1.0],
        "fill": "drop",
        **more,
    }


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    store = Store(tmp_path / "new" / "run")
    rows = [row("a", 0.1), row("b", float("nan"), curve=None, label=3), row("c", 1 / 3)]
    store.add(rows)
    again = Store(tmp_path / "new" / "run")
    assert again.done["a"] == rows[0]
    assert again.done["c"]["value"] == 1 / 3  # to the last bit
    assert again.done["b"]["value"] != again.done["b"]["value"]
    assert (again.done["b"]["label"], again.done["b"]["curve"]) == (3, None)


@pytest.mark.parametrize(
    "name", ["naïve/漢字 😀", "../../etc/passwd", "<script>alert(1)</script>", "a\nb\tc\0", "[red]"]
)
def test_hostile_ids(tmp_path: Path, name: str) -> None:
    Store(tmp_path).add([row("a", sample=name)])
    assert Store(tmp_path).done["a"]["sample"] == name
    assert sorted(path.name for path in tmp_path.iterdir()) == [LEDGER, PARTS]


def test_what_is_there_is_never_changed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add([row("b", 0.1), row("a", 0.2)])
    store.add([row("b", 0.7), row("c", 0.3)])
    assert store.done["b"]["value"] == 0.1
    for _ in range(2):  # also after reading it again, in any order of the files
        store = Store(tmp_path)
        assert {name: r["value"] for name, r in store.done.items()} == {
            "a": 0.2,
            "b": 0.1,
            "c": 0.3,
        }
    before = sorted((tmp_path / PARTS).iterdir())
    store.add([row("b", 0.9)])
    store.add([])
    assert sorted((tmp_path / PARTS).iterdir()) == before


def test_the_same_rows_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        store = Store(tmp_path / name)
        store.add([row("a"), row("b")])
        store.write_table(RESULTS, [row("a")])
    first, second = (
        sorted((p.name, p.read_bytes()) for p in (tmp_path / name).rglob("*.parquet"))
        for name in ("one", "two")
    )
    assert first == second


def test_a_file_that_was_being_written_does_not_count(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add([row("a")])
    whole = next((tmp_path / PARTS).iterdir())
    # The files that kill -9 leaves.
    (tmp_path / PARTS / f".{'0' * 32}.parquet.123").write_bytes(whole.read_bytes()[:40])
    assert set(Store(tmp_path).done) == {"a"}


@pytest.mark.parametrize(
    "damage",
    [
        lambda good: b"",
        lambda good: b"PAR1 nothing of the kind PAR1",
        lambda good: good[: len(good) // 2],
        lambda good: good[:-4] + b"XXXX",
        lambda good: good[:4] + bytes(len(good) // 2) + good[4 + len(good) // 2 :],
    ],
)
def test_a_damaged_file_does_not_count_and_is_named(tmp_path: Path, damage: Any) -> None:
    Store(tmp_path).add([row("a"), row("b")])
    (file,) = (tmp_path / PARTS).iterdir()
    good = file.read_bytes()
    file.write_bytes(damage(good))
    store = Store(tmp_path)
    assert store.done == {}
    (found,) = store.damage
    assert found.file == f"{PARTS}/{file.name}"
    assert "checksum" in found.reason
    store.add([row("a"), row("b")])  # computed again, it replaces the damaged file
    assert file.read_bytes() == good
    assert set(Store(tmp_path).done) == {"a", "b"}
    assert not Store(tmp_path).damage


def test_no_flipped_bit_goes_unseen(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add([row(f"u{i}", 0.1 * i + 0.03) for i in range(20)])
    (file,) = (tmp_path / PARTS).iterdir()
    good = file.read_bytes()
    for place in range(4, len(good) - 8, 61):
        file.write_bytes(good[:place] + bytes([good[place] ^ 16]) + good[place + 1 :])
        assert not Store(tmp_path).done


def test_a_foreign_file_does_not_count_and_is_named(tmp_path: Path) -> None:
    Store(tmp_path).add([row("a")])
    foreign = tmp_path / PARTS / "mine.parquet"
    parquet.write_table(pyarrow.table({"x": [1]}), foreign)
    store = Store(tmp_path)
    assert set(store.done) == {"a"}
    assert [one.file for one in store.damage] == [f"{PARTS}/mine.parquet"]
    store.ledger.write("mine.parquet", foreign.read_bytes())  # even if a line names it
    store = Store(tmp_path)
    assert set(store.done) == {"a"}
    assert "different columns" in store.damage[0].reason


def test_a_missing_ledger_line_or_shard(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.add([row("a")])
    store.add([row("b")])
    (ledger,) = (tmp_path / LEDGER).iterdir()
    first, second = ledger.read_text().splitlines()
    ledger.write_text(second + "\n")
    again = Store(tmp_path)
    assert set(again.done) == {"b"}
    assert "no ledger line" in again.damage[0].reason
    ledger.write_text(f"{first}\n{second[:20]}\nnot JSON\n")
    assert set(Store(tmp_path).done) == {"a"}
    ledger.write_text(f"{first}\n{second}\n")
    (tmp_path / PARTS / json.loads(first)["shard"]).unlink()
    again = Store(tmp_path)
    assert set(again.done) == {"b"}
    assert "missing" in again.damage[0].reason


def test_two_writers_do_no_damage(tmp_path: Path) -> None:
    one, other = Store(tmp_path), Store(tmp_path)
    one.add([row("a")])
    other.add([row("a")])
    other.add([row("b")])
    one.add([row("c")])
    both = Store(tmp_path)
    assert set(both.done) == {"a", "b", "c"}
    assert not both.damage
    assert len([*(tmp_path / LEDGER).iterdir()]) == 2


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(StoreError, match="cannot be created"):
            Store(place)


@pytest.mark.parametrize("name", ["_parquet_bytes", "fsync", "replace"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    store = Store(tmp_path)
    store.add([row("a")])

    def full(*arguments: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        if name == "_parquet_bytes":
            patched.setattr(module_under_test, "_parquet_bytes", full)
        elif name == "fsync":
            patched.setattr(os, "fsync", full)
        else:
            patched.setattr(Path, "replace", full)
        with pytest.raises(StoreError) as found:
            store.add([row("b")])
    message = str(found.value)
    assert "No space left on device" in message
    assert "The 1 finished rows are kept" in message
    assert "run the same evaluation again" in message
    assert set(store.done) == {"a"}  # only rows on disk count as finished
    assert len([*(tmp_path / PARTS).iterdir()]) == 1  # no partial file is left
    store.add([row("b")])
    assert set(Store(tmp_path).done) == {"a", "b"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB; skips the test if it cannot be mounted."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    made = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], capture_output=True
    )
    if made.returncode:
        pytest.skip("no disk can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_really_is_full(small_disk: Path) -> None:
    store = Store(small_disk)

    def fill() -> None:
        for number in range(100):
            store.add([row(f"{number}-{i}", curve=[0.1 * i, number / 7] * 50) for i in range(40)])

    with pytest.raises(StoreError, match="No space left on device"):
        fill()
    kept = len(store.done)
    assert kept
    assert len(Store(small_disk).done) == kept
    assert not [p for p in (small_disk / PARTS).iterdir() if p.name.startswith(".")]


def test_a_finished_run_is_read_back(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a finished run"):
        Results.read(tmp_path)
    store = Store(tmp_path)
    store.write_table(RESULTS, [row("a")])
    store.write_json(SETTINGS, {"metrics": {"auac": {"steps": [0.0, 1.0]}}, "naïve": "漢"})
    assert "漢" in (tmp_path / SETTINGS).read_text(encoding="utf-8")
    results = Results.read(tmp_path)
    assert results.methods == ("gae",)
    assert results.rows[0]["value"] == 0.5


@pytest.mark.parametrize("name", [RESULTS, SETTINGS])
def test_a_damaged_run_is_said_to_be(tmp_path: Path, name: str) -> None:
    store = Store(tmp_path)
    store.write_table(RESULTS, [row("a")])
    store.write_json(SETTINGS, {"metrics": {}})
    (tmp_path / name).write_bytes(b"{")
    with pytest.raises(InputError, match=f"{name}.*Run the same evaluation again"):
        Results.read(tmp_path)
