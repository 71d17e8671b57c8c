"""The options of commands that run on workers: which engine, how many workers, which cluster."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from whyformer.errors import OptionError
from whyformer.workers import EngineOptions

PANEL = "Workers"

EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Where the work runs: [bold]local[/bold] on this machine, or [bold]ray[/bold] on a"
        " Ray cluster. The results are the same.",
        rich_help_panel=PANEL,
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        help="How many processes work at the same time; each loads the model.",
        rich_help_panel=PANEL,
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads",
        metavar="N",
        help="Threads of torch in each worker. Another number changes the last digits.",
        rich_help_panel=PANEL,
    ),
]
Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="The Ray cluster. Default: Ray is started on this machine.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
RuntimeEnv = Annotated[
    str | None,
    typer.Option(
        "--runtime-env",
        metavar="JSON",
        help="Ray's runtime environment, for a cluster without whyformer:"
        ' \'{"pip": ["whyformer[ray]"]}\'.',
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
Gpus = Annotated[
    float,
    typer.Option(
        "--gpus",
        metavar="N",
        help="GPUs per worker on Ray; 0.5 puts two workers on one.",
        rich_help_panel=PANEL,
    ),
]


def read_engine(
    engine: str,
    workers: int,
    address: str | None,
    runtime_env: str | None,
    gpus: float = 0.0,
    threads: int = 1,
) -> EngineOptions:
    """Return the options of the engine; raise OptionError if they do not fit together."""
    return EngineOptions(
        engine, workers, threads, address=address, runtime_env=_read_json(runtime_env), gpus=gpus
    )


def _read_json(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = json.loads(text)
    except ValueError as error:
        raise OptionError(
            f"--runtime-env is not JSON: {error}",
            remedy='Write for example --runtime-env \'{"pip": ["whyformer[ray]"]}\'',
        ) from error
    if not isinstance(found, dict):
        raise OptionError(
            f"--runtime-env is a {type(found).__name__}, expected a mapping",
            remedy='Write for example --runtime-env \'{"pip": ["whyformer[ray]"]}\'',
        )
    return found
