"""Arguments of `whyformer explain` where there are many inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _option(*names: str, metavar: str | None, help: str) -> Any:
    """An option under a heading of its own; typer lists them there."""
    return typer.Option(
        *names, metavar=metavar, help=help, show_default=False, rich_help_panel="Many inputs"
    )


Source = Annotated[
    str | None,
    _option(
        "--input",
        metavar="FILE",
        help="Explain every row of a .jsonl, .csv, .tsv or .parquet file, every line of a .txt"
        " file, or a dataset as in sst2:PATH. A run that was broken off goes on.",
    ),
]
Out = Annotated[
    Path | None,
    _option(
        "--out",
        metavar="FILE",
        help="Where the scores go, a row for each input: a .parquet or .jsonl file.",
    ),
]
Column = Annotated[
    str | None,
    _option(
        "--column",
        metavar="NAME",
        help="The column of the texts. Default: text, sentence, review, ...",
    ),
]
TargetColumn = Annotated[
    str | None,
    _option(
        "--target-column",
        metavar="NAME",
        help="The column of the classes to explain, by index or label.",
    ),
]
Split = Annotated[
    str | None, _option("--split", metavar="NAME", help="Which part of the data to read.")
]
Limit = Annotated[int | None, _option("--limit", metavar="N", help="The first so many rows.")]
BatchSize = Annotated[
    int | None,
    _option(
        "--batch-size", metavar="N", help="Inputs that run together. Default: by their length."
    ),
]
SkipErrors = Annotated[
    bool,
    _option("--skip-errors", metavar=None, help="Leave out rows that cannot be read or explained."),
]
