"""The options of every command, as Markdown, read from the program itself."""

from __future__ import annotations

from typing import Any

import typer.main
from rich.text import Text

from whyformer.cli.app import application


def cli_reference() -> str:
    """Return one section per command: what it does, its arguments and options, and examples."""
    group: Any = typer.main.get_command(application())
    context = group.make_context("whyformer", [], resilient_parsing=True)
    names = group.list_commands(context)
    return "\n\n".join(_section(name, group.get_command(context, name)) for name in names)


def _section(name: str, command: Any) -> str:
    rows = [_row(parameter) for parameter in command.params if not getattr(parameter, "hidden", 0)]
    examples = [line.strip() for line in _plain(command.epilog).splitlines() if line.strip()]
    parts = [
        f"## whyformer {name}",
        _plain(command.help),
        "\n".join(["| option | what it does |", "| --- | --- |", *rows]),
    ]
    if examples[1:]:
        parts.append("\n".join(["```sh", *examples[1:], "```"]))
    return "\n\n".join(parts)


def _row(parameter: Any) -> str:
    names = [*parameter.opts, *parameter.secondary_opts]
    if parameter.param_type_name == "argument":
        names = [parameter.metavar or parameter.name.upper()]
    text = _plain(getattr(parameter, "help", "")).replace("|", "\\|").replace("\n", " ")
    return f"| {', '.join(f'`{name}`' for name in names)} | {text} |"


def _plain(text: str | None) -> str:
    """Return a help text without the markup of rich."""
    return Text.from_markup(text or "").plain
