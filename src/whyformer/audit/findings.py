"""The result of an audit: tables, sentences, charts, examples, and a row per explanation."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from whyformer.attribution import Attribution
from whyformer.attribution.optional_package import import_package
from whyformer.datasets.files import import_optional
from whyformer.errors import InputError
from whyformer.statistics.bootstrap import Estimate
from whyformer.storage import write_atomically

AUDIT, ROWS, REPORT = "audit.json", "rows.parquet", "report.html"
FORMAT = "whyformer-audit-1"

Kind = Literal["text", "count", "number", "signed", "percent"]
Cell = str | int | float | bool | None


@dataclass(frozen=True)
class AuditColumn:
    """The name of a column and the format of its cells."""

    name: str
    kind: Kind = "text"

    def format(self, cell: Cell) -> str:
        """Return a cell as text; a dash for None and for numbers that are not finite."""
        if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
            return "–"
        if isinstance(cell, bool):
            return "yes" if cell else "no"
        if self.kind == "count" or isinstance(cell, str):
            return f"{cell}" if isinstance(cell, str) else f"{cell:g}"
        if self.kind == "percent":
            return f"{100 * cell:.1f} %".replace("-", "\N{MINUS SIGN}")
        text = f"{abs(cell):.4f}"
        minus = cell < 0 and any(sign in text for sign in "123456789")
        plus = "+" if self.kind == "signed" and cell > 0 else ""
        return ("\N{MINUS SIGN}" if minus else plus) + text


@dataclass(frozen=True)
class AuditTable:
    """Columns and rows; `shown` is how many rows the report shows before it is unfolded."""

    title: str
    columns: tuple[AuditColumn, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    shown: int = 12

    def records(self) -> list[dict[str, Cell]]:
        """Return the rows as mappings from column to cell."""
        names = [column.name for column in self.columns]
        return [dict(zip(names, row, strict=True)) for row in self.rows]

    def format_row(self, row: Sequence[Cell]) -> list[str]:
        """Return one row as texts."""
        return [column.format(cell) for column, cell in zip(self.columns, row, strict=True)]


@dataclass(frozen=True)
class Point:
    """One line of a chart: a label, a value and its interval."""

    label: str
    estimate: Estimate


@dataclass(frozen=True)
class Chart:
    """Values with their intervals on one scale."""

    title: str
    points: tuple[Point, ...]
    percent: bool = False
    zero: bool = True  # whether 0 means no effect


@dataclass(frozen=True)
class AuditExample:
    """An explanation to show in the report, and why."""

    caption: str
    attribution: Attribution


@dataclass(frozen=True)
class Audit:
    """The result of an audit: a headline, the tables behind it, and one row per explanation."""

    kind: str  # "names", "terms" or "summary"
    title: str
    headline: tuple[str, ...]
    tables: Mapping[str, AuditTable]
    rows: tuple[Mapping[str, Any], ...]  # one per explanation
    settings: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    examples: tuple[AuditExample, ...] = ()
    first: tuple[str, ...] = field(default=())  # the tables that the terminal shows

    def __post_init__(self) -> None:
        for name in ("tables", "settings"):
            object.__setattr__(self, name, MappingProxyType(dict(getattr(self, name))))

    def __repr__(self) -> str:
        return f"<Audit of {self.kind}: {len(self.rows)} explanations; {' '.join(self.headline)}>"

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows and the examples, ready for JSON."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "title": self.title,
            "headline": list(self.headline),
            "notes": list(self.notes),
            "settings": dict(self.settings),
            "explanations": len(self.rows),
            "tables": {
                name: {"title": table.title, "note": table.note, "rows": table.records()}
                for name, table in self.tables.items()
            },
        }

    def to_html(self) -> str:
        """Return the report as one HTML page."""
        from whyformer.audit.report import build_report

        return build_report(self)

    def to_pandas(self, table: str | None = None) -> Any:
        """Return one table, or the rows of all explanations, as a pandas DataFrame.

        Args:
            table: The name of a table in `tables`; the rows if None.

        Raises:
            InputError: pandas is not installed, or there is no such table.
        """
        if table is not None and table not in self.tables:
            raise InputError(
                f"there is no table {table!r}",
                argument="table",
                remedy=f"Pass one of {', '.join(self.tables)}",
            )
        pandas = import_package("pandas", "to_pandas()")
        records = self.rows if table is None else self.tables[table].records()
        return pandas.DataFrame.from_records([dict(record) for record in records])

    def save(self, folder: str | Path) -> list[Path]:
        """Write the tables, the rows and the report to a folder; return the paths of the files.

        Raises:
            InputError: pyarrow is not installed.
        """
        place = Path(folder).expanduser()
        check_parquet()
        text = json.dumps(_finite(self.to_dict()), indent=2, ensure_ascii=False, allow_nan=False)
        arrow = import_optional("pyarrow", f"Writing {ROWS}")
        table = arrow.Table.from_pylist([dict(row) for row in self.rows])
        write_table = import_optional("pyarrow.parquet", f"Writing {ROWS}").write_table
        page = self.to_html()
        place.mkdir(parents=True, exist_ok=True)
        writers: dict[str, Callable[[Path], Any]] = {
            AUDIT: lambda path: path.write_text(text + "\n", encoding="utf-8"),
            ROWS: lambda path: write_table(table, path),
            REPORT: lambda path: path.write_text(page, encoding="utf-8"),
        }
        for name, writer in writers.items():
            write_atomically(place / name, writer)
        return [place / name for name in writers]


def check_parquet() -> None:
    """Raise InputError if pyarrow, which writes the rows, is not installed."""
    import_optional("pyarrow", f"Writing {ROWS}")


def _finite(value: Any) -> Any:
    """The same value with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(part) for key, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value
