"""`whyformer summarize` on a table: what it prints and writes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.faulty_disk import fault_at, no_space
from tests.summarize.test_summarize import TEXTS


def test_the_command_prints_and_writes(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("text\n" + "\n".join(f'"{text}"' for text in TEXTS), encoding="utf-8")
    done = run("summarize --data csv:reviews.csv --min-count 1 --out out")
    assert done.exit_code == 0
    assert "negative is supported most by: dull" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()


def test_a_disk_that_fills_up(run: Any, tmp_path: Path) -> None:
    """The summary is printed; the files are whole or absent, and the same on the next run."""
    table = tmp_path / "reviews.csv"
    table.write_text("text\n" + "\n".join(f'"{text}"' for text in TEXTS), encoding="utf-8")
    line = "summarize --data csv:reviews.csv --min-count 1 --out out"
    assert run(line).exit_code == 0
    out = tmp_path / "out"
    whole = {file.name: file.read_bytes() for file in out.iterdir()}
    for number, names in enumerate(([], ["audit.json"], ["audit.json", "rows.parquet"]), 1):
        shutil.rmtree(out)
        with fault_at(number, no_space):
            full = run(line)
        assert full.exit_code == 2
        assert full.stderr.count("error: ") == 1
        assert "--out 'out' cannot be written: No space left on device" in full.stderr
        assert "is supported most by" in full.stdout
        assert sorted(file.name for file in out.iterdir()) == names
    assert run(line).exit_code == 0
    assert {file.name: file.read_bytes() for file in out.iterdir()} == whole


def test_a_folder_that_cannot_be_made_is_refused_before_the_work(run: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    refused = run("summarize --data csv:none.csv --out file/sub/out")
    assert refused.exit_code == 2
    assert "--out 'file/sub/out' cannot be written" in refused.stderr
