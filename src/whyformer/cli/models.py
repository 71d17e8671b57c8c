"""`whyformer models`: list the bundled models."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

import whyformer
from whyformer.cli.app import command
from whyformer.cli.console import note, stdout_console


@command("models", heading="Look up", examples=("whyformer models",))
def models() -> None:
    """List the bundled models. --model also takes any folder or Hugging Face id."""
    found = whyformer.models().values()
    if not found:
        note("no bundled models are installed. Pass a folder or a Hugging Face id as --model")
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for heading in ("model", "what it is", "reads", "accuracy", "licence"):
        table.add_column(heading, no_wrap=heading in ("model", "reads"), overflow="fold")
    for model in found:
        table.add_row(
            Text(model.name, style="cyan"),
            Text(model.title),
            Text(model.stream),
            Text(f"{100 * model.accuracy:.1f} % {model.metric}"),
            Text(model.licence),
        )
    stdout_console().print(table)
