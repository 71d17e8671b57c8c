"""The options of commands that run on workers: which engine, how many workers, which cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from whyformer.cli.option_group import OptionGroup
from whyformer.errors import OptionError
from whyformer.workers import EngineOptions

PANEL = "Workers"
THIS_PROCESS = EngineOptions()

_EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help="Where the work runs: [bold]local[/bold] on this machine, or [bold]ray[/bold] on a"
        " Ray cluster. The results are the same.",
        rich_help_panel=PANEL,
    ),
]
_Workers = Annotated[
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
_Address = Annotated[
    str | None,
    typer.Option(
        "--address",
        metavar="HOST:PORT",
        help="The Ray cluster. Default: Ray is started on this machine.",
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
_RuntimeEnv = Annotated[
    str | None,
    typer.Option(
        "--runtime-env",
        metavar="JSON",
        help="Ray's runtime environment, for a cluster without whyformer:"
        ' \'{"pip": ["whyformer\\[ray]"]}\'.',
        show_default=False,
        rich_help_panel=PANEL,
    ),
]
_Gpus = Annotated[
    float,
    typer.Option(
        "--gpus",
        metavar="N",
        help="GPUs per worker on Ray; 0.5 puts two workers on one.",
        rich_help_panel=PANEL,
    ),
]


def _read_engine(values: Mapping[str, Any]) -> EngineOptions:
    """Return the options of the engine; raise OptionError if they do not fit together."""
    return EngineOptions(**{**values, "runtime_env": _read_json(values["runtime_env"])})


# A command takes them as one parameter, `run_on`, of type EngineOptions.
ENGINE_OPTIONS = OptionGroup(
    "run_on",
    {
        "engine": (_EngineName, "local"),
        "workers": (_Workers, 1),
        "address": (_Address, None),
        "runtime_env": (_RuntimeEnv, None),
        "gpus": (_Gpus, 0.0),
    },
    _read_engine,
)


def given_options(engine: EngineOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults, as they are typed, with their values."""
    return {
        f"--{name.replace('_', '-')}": getattr(engine, name)
        for name in ENGINE_OPTIONS.options
        if getattr(engine, name) != getattr(THIS_PROCESS, name)
    }


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
