"""`whyformer summarize`: what a model uses over a whole dataset."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from whyformer.cli.app import command
from whyformer.cli.arguments import (
    Model,
    Quiet,
    SampleLimit,
    SkipRows,
    Split,
    Target,
    Truncation,
    read_target,
)
from whyformer.cli.audit import check_folder, print_audit, run_with_progress
from whyformer.cli.engine_options import (
    Address,
    EngineName,
    Gpus,
    RuntimeEnv,
    Workers,
    read_engine,
)
from whyformer.cli.files import write
from whyformer.summarize import run_summary


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
    terms: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Terms whose share of the relevance is measured: one per line, CSV with"
            " term,group, or JSON by group.",
            show_default=False,
        ),
    ] = None,
    split: Split = None,
    limit: SampleLimit = None,
    skip_errors: SkipRows = False,
    min_count: Annotated[
        int,
        typer.Option(metavar="N", help="Rank only what occurs in at least N samples of a class."),
    ] = 5,
    truncation: Truncation = False,
    batch: Annotated[int, typer.Option(metavar="N", help="Samples per batch.")] = 32,
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
    engine: EngineName = "local",
    workers: Workers = 1,
    address: Address = None,
    runtime_env: RuntimeEnv = None,
    gpus: Gpus = 0.0,
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
        batch=batch,
        draws=draws,
        seed=seed,
        engine=read_engine(engine, workers, address, runtime_env, gpus),
    )
    found = run_with_progress(events)
    print_audit(found, quiet)
    write("--out", out, found.save)
