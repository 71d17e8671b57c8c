"""Options of commands that explain a whole dataset: `whyformer audit` and `whyformer summarize`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from whyformer.cli.arguments import FLAG

SamplesPerBatch = Annotated[int, typer.Option("--batch", metavar="N", help="Samples per batch.")]
Draws = Annotated[
    int, typer.Option("--draws", metavar="N", help="Bootstrap draws for each interval.")
]
DrawSeed = Annotated[int, typer.Option("--seed", metavar="N", help="Seed of all random draws.")]
MinCount = Annotated[
    int,
    typer.Option("--min-count", metavar="N", help="Rank only what occurs in at least N samples."),
]
OutFolder = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FOLDER",
        help="Write audit.json, rows.parquet and report.html to this folder.",
        show_default=False,
    ),
]
SkipSamples = Annotated[
    bool,
    typer.Option(
        "--skip-errors",
        metavar=FLAG,
        help="Skip rows that cannot be read or explained, and list them.",
    ),
]
TermsFile = Annotated[
    Path | None,
    typer.Option(
        "--terms",
        metavar="FILE",
        help="Terms whose relevance is measured: one per line, CSV with term,group, or JSON by"
        " group.",
        show_default=False,
    ),
]
