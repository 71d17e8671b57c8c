"""`whyformer metrics`: list the metrics, or show one in detail."""

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
        typer.Argument(help="Show the details of this metric.", metavar="NAME", show_default=False),
    ] = None,
) -> None:
    """List metrics, or show the details of one."""
    stdout_console().print(_list_table() if name is None else _details_table(known[name]))


def _list_table() -> Table:
    return listing(
        ("metric", "what it measures", "better", "needs"),
        ((one.name, one.title, one.better, ", ".join(one.needs)) for one in known.values()),
    )


def _details_table(metric: Metric) -> Table:
    options = [f"{key}={default!r}" for key, default in metric.options.items()]
    low, high = ("open" if end is None else f"{end:g}" for end in metric.range)
    return details(
        (
            ("metric", metric.name),
            ("what it measures", metric.title),
            ("better", metric.better),
            ("range", f"{low} to {high}"),
            ("convention", metric.convention),
            ("paper", metric.paper),
            ("needs", ", ".join(metric.needs) or "the attribution only"),
            ("options", "\n".join(options) or "none"),
            ("in detail", inspect.getdoc(metric.compute) or ""),
        )
    )
