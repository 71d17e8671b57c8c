"""`whyformer summarize` on a table: what it prints and writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.summarize.test_summarize import TEXTS


def test_the_command_prints_and_writes(run: Any, tmp_path: Path) -> None:
    table = tmp_path / "reviews.csv"
    table.write_text("text\n" + "\n".join(f'"{text}"' for text in TEXTS), encoding="utf-8")
    done = run("summarize --data csv:reviews.csv --min-count 1 --out out")
    assert done.exit_code == 0
    assert "negative is supported most by: dull" in done.stdout
    assert (tmp_path / "out" / "report.html").exists()
