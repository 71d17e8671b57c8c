"""`whyformer methods`: what there is to explain with."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from whyformer.cli.app import command
from whyformer.cli.console import result
from whyformer.methods import Method
from whyformer.methods import methods as known


@command(
    "methods",
    heading="Look up",
    examples=("whyformer methods", "whyformer methods lrp_ah_ln"),
)
def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="Tell all about this one.", metavar="NAME", show_default=False),
    ] = None,
) -> None:
    """List the methods, or tell of one its paper, promises and options."""
    result().print(_all() if name is None else _one(known[name]))


def _all() -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("method", "what it does", "promises"):
        table.add_column(heading, no_wrap=heading == "method", overflow="fold")
    for method in known.values():
        table.add_row(
            Text(method.name, style="cyan"),
            Text(method.title),
            Text(", ".join(method.promises)),
        )
    return table


def _one(method: Method) -> Table:
    table = Table.grid(padding=(0, 2))
    options = [f"{key}={default!r}" for key, default in method.options.items()]
    for heading, said in (
        ("method", method.name),
        ("what it does", method.title),
        ("paper", method.paper),
        ("promises", ", ".join(method.promises) or "nothing"),
        ("options", "\n".join(options) or "none"),
        ("in detail", inspect.getdoc(method.compute) or ""),
    ):
        if said:
            table.add_row(Text(heading, style="bold"), Text(said))
    return table
