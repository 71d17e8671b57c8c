"""`whyformer metrics`: what there is to measure with."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from whyformer.cli.app import command
from whyformer.cli.console import result
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
    result().print(_all() if name is None else _one(known[name]))


def _all() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("metric", "what it says", "better", "needs"):
        table.add_column(heading, no_wrap=heading == "metric", overflow="fold")
    for metric in known.values():
        table.add_row(
            Text(metric.name, style="cyan"),
            Text(metric.title),
            Text(metric.better),
            Text(", ".join(metric.needs)),
        )
    return table


def _one(metric: Metric) -> Table:
    table = Table.grid(padding=(0, 2))
    options = [f"{key}={default!r}" for key, default in metric.options.items()]
    low, high = ("open" if end is None else f"{end:g}" for end in metric.range)
    for heading, said in (
        ("metric", metric.name),
        ("what it says", metric.title),
        ("better", metric.better),
        ("range", f"{low} to {high}"),
        ("convention", metric.convention),
        ("paper", metric.paper),
        ("needs", ", ".join(metric.needs) or "the attribution only"),
        ("options", "\n".join(options) or "none"),
        ("in detail", inspect.getdoc(metric.compute) or ""),
    ):
        if said:
            table.add_row(Text(heading, style="bold"), Text(said))
    return table
