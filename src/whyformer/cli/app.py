"""The `whyformer` program: its commands, its help pages and its exit codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer.core import TyperGroup

from whyformer import __version__
from whyformer.cli.arguments import FLAG
from whyformer.cli.config import read_config
from whyformer.cli.console import print_error, stdout_console
from whyformer.cli.strict_command import StrictCommand, show_flags
from whyformer.cli.view_files import add_view_options
from whyformer.errors import WhyformerError
from whyformer.registry import Registry

REFUSED = 2
INTERRUPTED = 130  # what shells expect after Ctrl-C: 128 + SIGINT

FIRST_STEPS = (
    'whyformer explain "a gripping, beautifully acted film"',
    "whyformer explain --help",
)

Run = Callable[..., None]
Heading = Literal["Explain", "Measure", "Look up"]  # of the help page, in this order


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


class ErrorReportingGroup(TyperGroup):
    """Print a `WhyformerError` as one line; other exceptions are bugs and keep their traceback."""

    def get_params(self, ctx: Any) -> list[Any]:
        return show_flags(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        try:
            ctx.default_map = read_config(Path(), self.commands)
            return super().invoke(ctx)
        except WhyformerError as error:
            print_error(error)
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


def application() -> typer.Typer:
    """Return the program with every registered command."""
    app = typer.Typer(
        cls=ErrorReportingGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog=_help_examples(FIRST_STEPS),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_whyformer)
    order = get_args(Heading)
    for entry in sorted(commands.values(), key=lambda entry: order.index(entry.heading)):
        examples = _help_examples(entry.examples)
        run = add_view_options(entry.run)
        panel = entry.heading
        app.command(entry.name, cls=StrictCommand, rich_help_panel=panel, epilog=examples)(run)
    return app


def _help_examples(examples: tuple[str, ...]) -> str | None:
    """Return the last paragraph of a help page."""
    # Blank lines keep typer from joining the examples.
    lines = "\n\n".join(f"  [cyan]{example}[/cyan]" for example in examples)
    return f"Examples:\n\n{lines}" if examples else None


def _print_version(print_it: bool) -> None:
    if print_it:
        stdout_console().print(f"whyformer {__version__}")
        raise typer.Exit


def _whyformer(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            metavar=FLAG,
            callback=_print_version,
            is_eager=True,
            help="Print the version.",
        ),
    ] = False,
) -> None:
    """Find out which words or image patches drove a transformer's prediction."""
