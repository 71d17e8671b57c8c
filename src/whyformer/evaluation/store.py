"""Finished units of a run: shards that are complete or absent, and a ledger of their checksums."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from whyformer.evaluation.fingerprint import of_facts
from whyformer.evaluation.units import ResultRow
from whyformer.storage import Ledger, StoreError, open_folder
from whyformer.storage.ledger import Damage
from whyformer.storage.run_folder import reason_of

__all__ = ["PARTS", "Store", "StoreError"]

PARTS = "parts"


class Store:
    """The finished rows of a run by unit id, in many small Parquet files.

    A file that is damaged, foreign or without a ledger line does not count: `damage` lists it, and
    its rows are computed again.

    Args:
        folder: The folder or URL of the run; a folder is created if it does not exist.

    Raises:
        StoreError: The folder cannot be created or listed.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = open_folder(folder)
        self.ledger = Ledger(self.folder, PARTS)
        self.done: dict[str, ResultRow] = {}
        for name, content in self.ledger.read():
            try:
                self.done.update((row["unit"], row) for row in _read_rows(content))
            except ValueError as error:  # Arrow's errors are subclasses
                self.damage.append(Damage(f"{PARTS}/{name}", str(error).split("\n")[0]))

    @property
    def damage(self) -> list[Damage]:
        """The files that do not count."""
        return self.ledger.damage

    def add(self, rows: Sequence[ResultRow]) -> None:
        """Write finished rows, except those that are already there.

        Each unit is in one file only, so that the order of the files does not matter.
        """
        rows = [row for row in rows if row["unit"] not in self.done]
        if not rows:
            return
        name = f"{of_facts([row['unit'] for row in rows])}.parquet"
        try:
            self.ledger.write(name, _parquet_bytes(rows))
        except OSError as error:
            raise self._write_error(f"{PARTS}/{name}", error) from error
        self.done.update((row["unit"], row) for row in rows)

    def write_table(self, name: str, rows: Sequence[ResultRow]) -> None:
        """Write rows as one Parquet file."""
        self.write(name, _parquet_bytes(rows))

    def write_json(self, name: str, facts: Any) -> None:
        """Write facts as indented JSON."""
        self.write_text(name, json.dumps(facts, indent=2, ensure_ascii=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a page or a table."""
        self.write(name, text.encode("utf-8"))

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; raise StoreError if that fails."""
        try:
            self.folder.write(name, content)
        except OSError as error:
            raise self._write_error(name, error) from error

    def _write_error(self, name: str, error: OSError) -> StoreError:
        return StoreError(
            f"{self.folder.path(name)!r} cannot be written: {reason_of(error)}. The"
            f" {len(self.done)} finished rows are kept",
            argument="out",
            remedy="Free some space, or check that you may write there, and run the same evaluation"
            " again to resume it",
        )


def _read_rows(content: bytes) -> list[ResultRow]:
    from pyarrow import parquet

    table = parquet.read_table(BytesIO(content))
    if not table.schema.equals(_schema()):
        raise ValueError("it has different columns")
    rows: list[ResultRow] = table.to_pylist()
    return rows


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
            ("fill", pyarrow.string()),
        ]
    )


def _parquet_bytes(rows: Sequence[ResultRow]) -> bytes:
    import pyarrow
    from pyarrow import parquet

    table = pyarrow.Table.from_pylist([dict(row) for row in rows], schema=_schema())
    content = BytesIO()
    parquet.write_table(table, content, compression="zstd", write_page_checksum=True)
    return content.getvalue()
