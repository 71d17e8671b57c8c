"""`whyformer methods`: list the methods, or show one in detail."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.table import Table

from whyformer.cli.app import command
from whyformer.cli.console import stdout_console
from whyformer.cli.listing import details, listing
from whyformer.methods import Method
from whyformer.methods import methods as known


@command(
    "methods",
    heading="Look up",
    examples=("whyformer methods", "whyformer methods blend"),
)
def methods(
    name: Annotated[
        str | None,
        typer.Argument(help="Show the details of this method.", metavar="NAME", show_default=False),
    ] = None,
) -> None:
    """List methods, or show the details of one."""
    stdout_console().print(_list_table() if name is None else _details_table(known[name]))


def _list_table() -> Table:
    return listing(
        ("method", "what it does", "promises"),
        ((one.name, one.title, ", ".join(one.promises)) for one in known.values()),
    )


def _details_table(method: Method) -> Table:
    options = [f"{key}={default!r}" for key, default in method.options.items()]
    return details(
        (
            ("method", method.name),
            ("what it does", method.title),
            ("paper", method.paper),
            ("promises", ", ".join(method.promises) or "nothing"),
            ("options", "\n".join(options) or "none"),
            ("in detail", inspect.getdoc(method.compute) or ""),
        )
    )
