"""`whyformer summarize`: what a model uses over a whole dataset."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

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
from whyformer.cli.engine_options import THIS_PROCESS, Threads
from whyformer.cli.files import write
from whyformer.summarize import run_summary
from whyformer.workers import EngineOptions


class SummaryUnit(StrEnum):
    """What is ranked."""

    words = "words"
    sentences = "sentences"
    positions = "positions"


@command(
    "summarize",
    heading="Measure",
    examples=(
        "whyformer summarize --data csv:reviews.csv,text=review --out summary",
        "whyformer summarize --data sst2:PATH --limit 500 --terms names.txt",
        "whyformer summarize --data csv:reviews.csv --model old --other new",
        "whyformer summarize --data images:FOLDER --model FOLDER",
    ),
)
def summarize_command(
    data: Annotated[
        str,
        typer.Option(
            "--data",
            "-d",
            metavar="NAME:PATH",
            help="The dataset, as in sst2:PATH or csv:my.csv,text=review.",
            show_default=False,
        ),
    ],
    model: Model = None,
    other: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A second model, or another version of the model, to compare with.",
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", "-m", metavar="NAME", help="See whyformer methods.")
    ] = "auto",
    target: Target = None,
    unit: Annotated[
        SummaryUnit | None,
        typer.Option(
            help="What to rank. Default: words of texts, positions of images.", show_default=False
        ),
    ] = None,
    terms: TermsFile = None,
    split: Split = None,
    limit: SampleLimit = None,
    skip_errors: SkipSamples = False,
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
    """Rank the words, sentences or image positions that speak for each class of a model."""
    if out is not None:
        check_folder(out)
    events = run_summary(
        data,
        model,
        other=other,
        method=method,
        target=read_target(target),
        unit=None if unit is None else unit.value,
        terms=terms,
        split=split,
        limit=limit,
        on_error="skip" if skip_errors else "raise",
        min_count=min_count,
        truncation=truncation,
        device=device,
        dtype=dtype,
        batch=batch,
        draws=draws,
        seed=seed,
        engine=replace(run_on, threads=threads),
    )
    found = run_with_progress(events)
    print_audit(found, quiet)
    write("--out", out, found.save)
