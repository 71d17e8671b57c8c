"""Finished units on disk: each file is complete or absent, and is never changed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from whyformer.errors import WhyformerError
from whyformer.evaluation.atomic_write import write_atomically
from whyformer.evaluation.fingerprint import of_facts
from whyformer.evaluation.units import ResultRow

PARTS = "parts"
FILL = "fill"


class StoreError(WhyformerError, OSError):
    """The folder of a run cannot be read or written."""


class Store:
    """The finished rows of a run by unit id, in many small Parquet files.

    Args:
        folder: The folder of the run; it is created if it does not exist.

    Raises:
        StoreError: The folder cannot be created, or one of its files cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            (folder / PARTS).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"the folder {str(folder)!r} cannot be created: {_reason(error)}",
                argument="out",
                remedy="Choose another folder",
            ) from error
        self.done: dict[str, ResultRow] = {}
        for file in sorted((folder / PARTS).glob("*.parquet")):
            self.done.update((row["unit"], row) for row in self._read(file))

    def _read(self, file: Path) -> list[ResultRow]:
        import pyarrow
        from pyarrow import parquet

        try:
            table = parquet.read_table(file, page_checksum_verification=True)
            if FILL not in table.column_names:  # written by an earlier version
                table = table.append_column(FILL, pyarrow.nulls(len(table), pyarrow.string()))
            if not table.schema.equals(_schema()):
                raise OSError("it has different columns")
            rows: list[ResultRow] = table.to_pylist()
        except (OSError, pyarrow.ArrowException, UnicodeDecodeError) as error:
            raise StoreError(
                f"{str(file)!r} cannot be read ({_reason(error)})",
                argument="out",
                remedy="To compute its rows again, delete it",
            ) from error
        return rows

    def add(self, rows: Sequence[ResultRow]) -> None:
        """Write finished rows to disk, except those that are already there.

        Each unit is in one file only, so that the order of the files does not matter.
        """
        rows = [row for row in rows if row["unit"] not in self.done]
        if not rows:
            return
        name = of_facts([row["unit"] for row in rows])
        self.write(f"{PARTS}/{name}.parquet", lambda path: _write_parquet(rows, path))
        self.done.update((row["unit"], row) for row in rows)

    def write_table(self, name: str, rows: Sequence[ResultRow]) -> None:
        """Write rows as one Parquet file."""
        self.write(name, lambda path: _write_parquet(rows, path))

    def write_json(self, name: str, facts: Any) -> None:
        """Write facts as indented JSON."""
        text = json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
        self.write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def write_text(self, name: str, text: str) -> None:
        """Write a page or a table."""
        self.write(name, lambda path: path.write_text(text, encoding="utf-8"))

    def write(self, name: str, writer: Callable[[Path], Any]) -> None:
        """Write a file atomically; raise StoreError if that fails."""
        path = self.folder / name
        try:
            write_atomically(path, writer)
        except OSError as error:
            raise StoreError(
                f"{str(path)!r} cannot be written: {_reason(error)}. The {len(self.done)} finished"
                " rows are kept",
                argument="out",
                remedy="Free some disk space, and run the same evaluation again to resume it",
            ) from error


def _schema() -> Any:
    """The columns of every file of rows."""
    import pyarrow

    numbers = pyarrow.list_(pyarrow.float64())
    return pyarrow.schema(
        [
            ("unit", pyarrow.string()),
            ("sample", pyarrow.string()),
            ("method", pyarrow.string()),
            ("target", pyarrow.string()),
            ("metric", pyarrow.string()),
            ("value", pyarrow.float64()),
            ("explained", pyarrow.int64()),
            ("label", pyarrow.int64()),
            ("curve", numbers),
            ("found", numbers),
            ("there", numbers),
            ("convention", pyarrow.string()),
            ("steps", numbers),
            (FILL, pyarrow.string()),
        ]
    )


def _write_parquet(rows: Sequence[ResultRow], path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist([dict(row) for row in rows], schema=_schema())
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
    parquet.write_table(table, path, compression="zstd", write_page_checksum=True)


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", None) or str(error).strip().split("\n")[0]
