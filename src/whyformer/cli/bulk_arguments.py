"""Options of `whyformer explain --input FILE`, which explains every row of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from whyformer.cli.arguments import FLAG


def _option(*names: str, metavar: str, help: str) -> Any:
    """Return an option for the help panel "Many inputs"."""
    return typer.Option(
        *names, metavar=metavar, help=help, show_default=False, rich_help_panel="Many inputs"
    )


Source = Annotated[
    str | None,
    _option(
        "--input",
        metavar="FILE",
        help="Explain every row of a .jsonl, .csv, .tsv or .parquet file, every line of a .txt"
        " file, or a dataset such as sst2:PATH. An interrupted run can be continued.",
    ),
]
Out = Annotated[
    Path | None,
    _option(
        "--out",
        metavar="FILE",
        help="Write the scores, one row per input, to this .parquet or .jsonl file.",
    ),
]
Column = Annotated[
    str | None,
    _option(
        "--column",
        metavar="NAME",
        help="The column that holds the text. Default: text, sentence, review, ...",
    ),
]
TargetColumn = Annotated[
    str | None,
    _option(
        "--target-column",
        metavar="NAME",
        help="The column that holds the class to explain, as index or label.",
    ),
]
Split = Annotated[
    str | None, _option("--split", metavar="NAME", help="The split to read, such as dev.")
]
Limit = Annotated[int | None, _option("--limit", metavar="N", help="Read only the first N rows.")]
BatchSize = Annotated[
    int | None,
    _option("--batch-size", metavar="N", help="Inputs per batch. Default: chosen by length."),
]
SkipErrors = Annotated[
    bool,
    _option("--skip-errors", metavar=FLAG, help="Skip rows that cannot be read or explained."),
]
