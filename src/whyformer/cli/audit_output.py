"""Findings about a whole dataset in the terminal: `whyformer audit` and `whyformer summarize`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from whyformer.attribution.characters import hide_controls
from whyformer.audit import Audit, AuditTable
from whyformer.audit.findings import check_parquet
from whyformer.batching.progress import Progress
from whyformer.cli.console import note, stdout_console
from whyformer.cli.files import OutputError
from whyformer.cli.progress import show_progress
from whyformer.errors import TrustWarning
from whyformer.render.terminal.wide_table import WideTable

LINES = 12  # of each table, in the terminal


def check_folder(folder: Path) -> None:
    """Raise OutputError if the results cannot be written, before any work is done."""
    place = folder.expanduser()
    if place.exists() and not place.is_dir():
        raise OutputError(
            f"--out {str(folder)!r} is a file", remedy="Name a folder; it is created if missing"
        )
    existing = next(one for one in (place, *place.absolute().parents) if one.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise OutputError(
            f"--out {str(folder)!r} cannot be written: {str(existing)!r} is"
            f" {'read-only' if existing.is_dir() else 'a file'}",
            remedy="Name another folder",
        )
    check_parquet()


def run_with_progress(events: Iterator[Progress | Audit]) -> Audit:
    """Return the audit, behind a progress bar; print doubts as notes at the end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", TrustWarning)
        found = show_progress(events)
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)
    return found


def print_audit(found: Audit, quiet: bool) -> None:
    """Print the headline and the first tables, unless `quiet`, and the notes."""
    if not quiet:
        stdout_console().print(_render_audit(found))
    for message in found.notes:
        note(message)


def _render_audit(found: Audit) -> RenderableType:
    """Return the headline and the first tables for the terminal."""
    parts: list[RenderableType] = [Text(found.title, style="bold")]
    settings = found.settings
    summary = f"{len(found.rows)} explanations by {', '.join(settings['methods'])}"
    parts.append(Text(f"{summary}, target: {settings['target']}", style="dim"))
    parts += [Text(hide_controls(sentence)) for sentence in found.headline]
    for name in found.first:
        if name in found.tables:
            parts += [Text(), _render_table(found.tables[name])]
    return Group(*parts)


def _render_table(table: AuditTable) -> WideTable:
    more = len(table.rows) - LINES
    return WideTable(
        table.title,
        [column.name for column in table.columns],
        [[hide_controls(cell) for cell in table.format_row(row)] for row in table.rows[:LINES]],
        [column.kind != "text" for column in table.columns],
        f"and {more} more, all in the files of --out FOLDER" if more > 0 else "",
    )
