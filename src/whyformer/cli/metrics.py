"""`whyformer metrics`: what there is to measure with."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table

from whyformer.cli.app import command
from whyformer.cli.console import stdout_console
from whyformer.cli.listing import details, listing
from whyformer.metrics import Metric
from whyformer.metrics import metrics as known


@command(
    "metrics",
    heading="Look up",
    examples=("whyformer metrics", "whyformer metrics auac"),
)
def metrics(
    name: Annotated[
        str | None,
        typer.Argument(help="Tell all about this one.", metavar="NAME", show_default=False),
    ] = None,
) -> None:
    """List the metrics, or tell of one its paper, convention and options."""
    stdout_console().print(_all() if name is None else _one(known[name]))


def _all() -> Table:
    return listing(
        ("metric", "what it says", "better", "needs"),
        ((one.name, one.title, one.better, ", ".join(one.needs)) for one in known.values()),
    )


def _one(metric: Metric) -> Table:
    options = [f"{key}={default!r}" for key, default in metric.options.items()]
    low, high = ("open" if end is None else f"{end:g}" for end in metric.range)
    return details(
        (
            ("metric", metric.name),
            ("what it says", metric.title),
            ("better", metric.better),
            ("range", f"{low} to {high}"),
            ("convention", metric.convention),
            ("paper", metric.paper),
            ("needs", ", ".join(metric.needs) or "the attribution only"),
            ("options", "\n".join(options) or "none"),
            ("in detail", inspect.getdoc(metric.compute) or ""),
        )
    )
