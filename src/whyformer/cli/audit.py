"""`whyformer audit`: measure how much a model relies on names or terms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from whyformer.attribution.characters import hide_controls
from whyformer.audit import (
    DEFAULT_NAMES,
    Audit,
    AuditTable,
    name_lists,
    run_name_audit,
    run_term_audit,
)
from whyformer.audit.findings import check_parquet
from whyformer.batching.progress import Progress
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    Device,
    Dtype,
    Model,
    Quiet,
    SampleLimit,
    SkipRows,
    Split,
    Target,
    Truncation,
    read_target,
)
from whyformer.cli.console import busy, note, stdout_console
from whyformer.cli.files import OutputError, write
from whyformer.cli.progress import show_progress
from whyformer.errors import OptionError, TrustWarning
from whyformer.models.load import load_model
from whyformer.render.terminal.wide_table import WideTable

LINES = 12  # of each table, in the terminal
NAMES_OPTIONS = ("names", "templates", "per_group")  # options of the names audit only
NAMES_HELP = (
    f"A list of names by group: {', '.join(name_lists())}, or a file (CSV with name,group or JSON"
    f" by group). Default: {DEFAULT_NAMES}."
)


class AuditKind(StrEnum):
    """What is audited."""

    names = "names"
    terms = "terms"


@command(
    "audit",
    heading="Measure",
    examples=(
        "whyformer audit names",
        "whyformer audit names --model FOLDER --names mine.csv --out names_audit",
        "whyformer audit terms --data sst2:PATH --limit 500",
        "whyformer audit terms --data csv:reviews.csv --terms countries.txt --out terms_audit",
    ),
)
def audit(
    what: Annotated[
        AuditKind,
        typer.Argument(
            metavar="names|terms",
            help="[bold]names[/bold]: put names into sentences and compare groups of names."
            " [bold]terms[/bold]: rank the words of a dataset, and measure the terms in --terms.",
            show_default=False,
        ),
    ],
    model: Model = None,
    methods: Annotated[
        str,
        typer.Option(
            "--methods", "-M", metavar="A,B,...", help="Names of methods; see whyformer methods."
        ),
    ] = "libragrad",
    target: Target = None,
    names: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help=NAMES_HELP,
            show_default=False,
        ),
    ] = None,
    templates: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sentences with {name} in them, one per line or as a JSON list. Default: 30"
            " sentences about films.",
            show_default=False,
        ),
    ] = None,
    per_group: Annotated[
        int | None,
        typer.Option(metavar="N", help="Use the first N names of each group.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:PATH",
            help="The dataset to audit, as in sst2:PATH or csv:my.csv,text=review.",
            show_default=False,
        ),
    ] = None,
    terms: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Terms to measure: one per line, CSV with term,group, or JSON by group."
            " Without it, all words are ranked.",
            show_default=False,
        ),
    ] = None,
    split: Split = None,
    limit: SampleLimit = None,
    skip_errors: SkipRows = False,
    function_words: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Function words (the, of, ...), one per line. Default: English ones.",
            show_default=False,
        ),
    ] = None,
    min_count: Annotated[
        int, typer.Option(metavar="N", help="Rank only words that occur in at least N samples.")
    ] = 5,
    truncation: Truncation = False,
    device: Device = None,
    dtype: Dtype = None,
    batch: Annotated[int, typer.Option(metavar="N", help="Texts per batch.")] = 32,
    draws: Annotated[
        int, typer.Option(metavar="N", help="Bootstrap draws for each interval.")
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all random draws.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Write audit.json, rows.parquet and report.html to this folder.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure how much a model relies on names, or on terms that you list."""
    options = {"names": names, "templates": templates, "per_group": per_group}
    options |= {"data": data, "terms": terms, "split": split, "limit": limit}
    options |= {"function_words": function_words, "skip_errors": skip_errors or None}
    _check_options(what, options)
    if out is not None:
        check_folder(out)
    shared: dict[str, Any] = {
        "methods": [name.strip() for name in methods.split(",") if name.strip()],
        "target": read_target(target),
        "truncation": truncation,
        "batch": batch,
        "draws": draws,
        "seed": seed,
    }
    with busy("loading the model ..."):
        loaded = load_model(model, None, "text", device, dtype)
    events: Iterator[Progress | Audit]
    if what is AuditKind.names:
        events = run_name_audit(
            loaded,
            names=names or DEFAULT_NAMES,
            templates=templates,
            per_group=per_group,
            **shared,
        )
    else:
        events = run_term_audit(
            data,
            loaded,
            terms=terms,
            split=split,
            limit=limit,
            on_error="skip" if skip_errors else "raise",
            function_words=function_words,
            min_count=min_count,
            **shared,
        )
    found = run_with_progress(events)
    print_audit(found, quiet)
    write("--out", out, found.save)


def _check_options(what: AuditKind, options: dict[str, Any]) -> None:
    """Raise OptionError if an option belongs to the other audit, or --data is missing."""
    for name, value in options.items():
        if value is not None and (name in NAMES_OPTIONS) != (what is AuditKind.names):
            other = AuditKind.names if name in NAMES_OPTIONS else AuditKind.terms
            option = "--" + name.replace("_", "-")
            raise OptionError(
                f"{option} belongs to 'whyformer audit {other.value}', but this is"
                f" 'whyformer audit {what.value}'",
                remedy="Leave it out",
            )
    if what is AuditKind.terms and options["data"] is None:
        raise OptionError(
            "an audit of terms needs a dataset",
            remedy="Write --data NAME:PATH, such as --data sst2:PATH or --data csv:reviews.csv",
        )


def check_folder(folder: Path) -> None:
    """Raise OutputError if the results cannot be written, before any work is done."""
    place = folder.expanduser()
    if place.exists() and not place.is_dir():
        raise OutputError(
            f"--out {str(folder)!r} is a file", remedy="Name a folder; it is created if missing"
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
        f"and {more} more: write all with --out FOLDER" if more > 0 else "",
    )
