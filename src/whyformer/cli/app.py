"""The `whyformer` program: its commands, its help pages and its exit codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from whyformer.cli.config import read_config
from whyformer.cli.console import print_error
from whyformer.cli.engine_options import ENGINE_OPTIONS
from whyformer.cli.front_page import HEADINGS, FrontGroup, Heading, help_examples, new_program
from whyformer.cli.strict_command import USAGE_ERROR, StrictCommand
from whyformer.cli.view_files import view_options
from whyformer.errors import OptionError, WhyformerError
from whyformer.registry import Registry

REFUSED = 2
INTERRUPTED = 130  # what shells expect after Ctrl-C: 128 + SIGINT

Run = Callable[..., None]


@dataclass(frozen=True)
class Command:
    """A sub-command, its heading on the help page, and examples."""

    name: str
    run: Run
    heading: Heading
    examples: tuple[str, ...]


commands: Registry[Command] = Registry("command", "whyformer.cli")


def command(name: str, *, heading: Heading, examples: tuple[str, ...] = ()) -> Callable[[Run], Run]:
    """Register a function as a sub-command; its parameters are the options."""

    def register(run: Run) -> Run:
        commands.register(name, Command(name, run, heading, examples))
        return run

    return register


class ErrorReportingGroup(FrontGroup):
    """Print a `WhyformerError` as one line; other exceptions are bugs and keep their traceback."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **more: Any
    ) -> Any:
        if not args:  # the help page
            return super().make_context(info_name, args, parent, **more)
        try:
            return super().make_context(info_name, args, parent, **more)
        except USAGE_ERROR as error:  # of the program itself, as an unknown option
            print_error(OptionError(error.format_message(), remedy="See whyformer --help"))
            raise typer.Exit(REFUSED) from error

    def invoke(self, ctx: Any) -> Any:
        try:
            ctx.default_map = read_config(Path(), self.commands)
            return super().invoke(ctx)
        except WhyformerError as error:
            print_error(error)
            raise typer.Exit(REFUSED) from error
        except USAGE_ERROR as error:  # as "No such command"
            print_error(OptionError(error.format_message(), remedy="See whyformer --help"))
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


def application(only: str | None = None) -> typer.Typer:
    """Return the program with every registered command, or with one of them."""
    app = new_program(ErrorReportingGroup)
    entries = commands.values() if only is None else [commands[only]]
    for entry in sorted(entries, key=lambda entry: HEADINGS.index(entry.heading)):
        examples = help_examples(entry.examples)
        run = entry.run
        for group in (view_options(), ENGINE_OPTIONS):
            run = group.expand(run)
        panel = entry.heading
        app.command(entry.name, cls=StrictCommand, rich_help_panel=panel, epilog=examples)(run)
    return app
