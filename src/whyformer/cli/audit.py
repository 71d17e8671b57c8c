"""`whyformer audit`: how much of a model's decisions rests on names, or on given words."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

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
from whyformer.cli.arguments import Model, Quiet, Target, Truncation, read_target
from whyformer.cli.console import busy, note, result
from whyformer.cli.files import OutputError, write
from whyformer.cli.progress import watched
from whyformer.errors import ConservationWarning, OptionError
from whyformer.models.load import load_model

LINES = 12  # of a table in the terminal
OF_NAMES = ("names", "templates", "per_group")  # the options of the names audit alone
NAMES_HELP = (
    f"Names by group: {', '.join(name_lists())}, or a file, JSON by group or CSV name,group."
    f" Default: {DEFAULT_NAMES}."
)


class What(StrEnum):
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
        What,
        typer.Argument(
            metavar="names|terms",
            help="[bold]names[/bold]: sentences with names put in, group against group."
            " [bold]terms[/bold]: the words of a dataset, and a list of terms among them.",
            show_default=False,
        ),
    ],
    model: Model = None,
    methods: Annotated[
        str,
        typer.Option("--methods", "-M", metavar="A,B,...", help="Methods by name."),
    ] = "lrp_ah_ln",
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
            help="Sentences with {name} in them, one per line or as JSON. Default: 30 about films.",
            show_default=False,
        ),
    ] = None,
    per_group: Annotated[
        int | None,
        typer.Option(metavar="N", help="The first N names of each group.", show_default=False),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="NAME:PATH",
            help="The dataset whose words are audited, as in sst2:PATH or csv:my.csv,text=review.",
            show_default=False,
        ),
    ] = None,
    terms: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Terms to look for: one per line, CSV term,group or JSON by group. Default: none,"
            " all words are ranked.",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The dataset's split.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="So many samples, drawn by --seed.", show_default=False),
    ] = None,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Leave out rows that cannot be read.")
    ] = False,
    function_words: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Words without content, one per line. Default: English ones.",
            show_default=False,
        ),
    ] = None,
    min_count: Annotated[
        int, typer.Option(metavar="N", help="Rank words that at least N samples have.")
    ] = 5,
    truncation: Truncation = False,
    batch: Annotated[
        int, typer.Option(metavar="N", help="So many texts are explained at once.")
    ] = 32,
    draws: Annotated[
        int, typer.Option(metavar="N", help="Draws of the bootstrap behind each interval.")
    ] = 1000,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the draws.")] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Write audit.json, rows.parquet and report.html there.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Show how much of a model's decisions rests on names, or on given words."""
    given = {"names": names, "templates": templates, "per_group": per_group}
    given |= {"data": data, "terms": terms, "split": split, "limit": limit}
    given |= {"function_words": function_words, "skip_errors": skip_errors or None}
    _check_options(what, given)
    if out is not None:
        _check_folder(out)
    shared: dict[str, Any] = {
        "methods": [name.strip() for name in methods.split(",") if name.strip()],
        "target": read_target(target),
        "truncation": truncation,
        "batch": batch,
        "draws": draws,
        "seed": seed,
    }
    with busy("loading the model ..."):
        loaded = load_model(model, None, "text")
    events: Iterator[Progress | Audit]
    if what is What.names:
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
    found = _watch(events)
    if not quiet:
        result().print(_shown(found))
    for said in found.notes:
        note(said)
    write("--out", out, found.save)


def _check_options(what: What, given: dict[str, Any]) -> None:
    """Nothing; raises where an option is of the other audit, or where there is no data."""
    for name, value in given.items():
        if value is not None and (name in OF_NAMES) != (what is What.names):
            other = What.names if name in OF_NAMES else What.terms
            option = "--" + name.replace("_", "-")
            raise OptionError(
                f"{option} belongs to 'whyformer audit {other.value}', and this is"
                f" 'whyformer audit {what.value}'; leave it out"
            )
    if what is What.terms and given["data"] is None:
        raise OptionError(
            "an audit of terms needs a dataset: write --data NAME:PATH, such as --data sst2:PATH or"
            " --data csv:reviews.csv"
        )


def _check_folder(folder: Path) -> None:
    """Nothing; raises where the results could not be written, before any work is done."""
    place = folder.expanduser()
    if place.exists() and not place.is_dir():
        raise OutputError(f"--out {str(folder)!r} is a file; name a folder, or one that is to be")
    check_parquet()


def _watch(events: Iterator[Progress | Audit]) -> Audit:
    """The audit, behind a progress bar; warnings become notes after it."""
    with warnings.catch_warnings(record=True) as caught, watched() as tell:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConservationWarning)
        for event in events:
            if isinstance(event, Progress):
                tell(event.doing, event.done, event.total)
            else:
                found = event
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)
    return found


def _shown(found: Audit) -> RenderableType:
    """The headline and the first tables, as a terminal shows them."""
    parts: list[RenderableType] = [Text(found.title, style="bold")]
    settings = found.settings
    told = f"{len(found.rows)} explanations by {', '.join(settings['methods'])}"
    parts.append(Text(f"{told}, target: {settings['target']}", style="dim"))
    parts += [Text(_safe(sentence)) for sentence in found.headline]
    for name in found.first:
        if name in found.tables:
            parts += [Text(), _table(found.tables[name])]
    return Group(*parts)


def _table(table: AuditTable) -> Grid:
    grid = Grid(
        title=Text(table.title, style="bold"),
        title_justify="left",
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
        header_style="dim",
    )
    for column in table.columns:
        right = column.kind != "text"
        grid.add_column(column.name, justify="right" if right else "left", no_wrap=right)
    for row in table.rows[:LINES]:
        grid.add_row(*(Text(_safe(cell)) for cell in table.format_row(row)))
    left = len(table.rows) - LINES
    if left > 0:
        grid.caption = Text(f"and {left} more: write all with --out FOLDER", style="dim")
        grid.caption_justify = "left"
    return grid


def _safe(text: str) -> str:
    """The text without signs that a terminal would obey."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
