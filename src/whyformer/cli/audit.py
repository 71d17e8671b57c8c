"""`whyformer audit`: measure how much a model relies on names or terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from whyformer.audit import (
    DEFAULT_NAMES,
    Audit,
    name_lists,
    run_name_audit,
    run_term_audit,
)
from whyformer.batching.progress import Progress
from whyformer.cli.app import command
from whyformer.cli.arguments import (
    Device,
    Dtype,
    Model,
    Quiet,
    SampleLimit,
    Split,
    Target,
    Truncation,
    read_target,
)
from whyformer.cli.audit_arguments import (
    Draws,
    DrawSeed,
    MinCount,
    OutFolder,
    SamplesPerBatch,
    SkipSamples,
    TermsFile,
)
from whyformer.cli.audit_output import check_folder, print_audit, run_with_progress
from whyformer.cli.console import busy
from whyformer.cli.engine_options import THIS_PROCESS, Threads
from whyformer.cli.files import write
from whyformer.errors import OptionError
from whyformer.models.load import load_model
from whyformer.workers import EngineOptions

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
        "whyformer audit terms --data csv:reviews.csv --workers 4",
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
    terms: TermsFile = None,
    split: Split = None,
    limit: SampleLimit = None,
    skip_errors: SkipSamples = False,
    function_words: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Function words (the, of, ...), one per line. Default: English ones.",
            show_default=False,
        ),
    ] = None,
    min_count: MinCount = 5,
    truncation: Truncation = False,
    device: Device = None,
    dtype: Dtype = None,
    batch: SamplesPerBatch = 32,
    draws: Draws = 1000,
    seed: DrawSeed = 0,
    out: OutFolder = None,
    threads: Threads = 1,
    run_on: EngineOptions = THIS_PROCESS,  # becomes several options
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
        "engine": replace(run_on, threads=threads),
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
