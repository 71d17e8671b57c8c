"""The application: gathers the sub-commands and turns refusals into one line and an exit code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from whyformer import __version__
from whyformer.cli.console import print_error, stdout_console
from whyformer.errors import WhyformerError
from whyformer.registry import Registry

REFUSED = 2
INTERRUPTED = 130  # what shells expect of a program ended by Ctrl-C: 128 + SIGINT

FIRST_STEPS = (
    'whyformer explain "a gripping, beautifully acted film"',
    "whyformer explain --help",
)

Run = Callable[..., None]


@dataclass(frozen=True)
class Command:
    """One sub-command, the heading it stands under in the help, and examples of its use."""

    name: str
    run: Run
    heading: str
    examples: tuple[str, ...]


commands: Registry[Command] = Registry("command", "whyformer.cli")


def command(name: str, *, heading: str, examples: tuple[str, ...] = ()) -> Callable[[Run], Run]:
    """Registers a function as a sub-command; its signature is its options."""

    def register(run: Run) -> Run:
        commands.register(name, Command(name, run, heading, examples))
        return run

    return register


class ErrorReportingGroup(TyperGroup):
    """Shows what whyformer refuses as one line; a traceback is for mistakes of ours."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except WhyformerError as error:
            print_error(str(error))
            raise typer.Exit(REFUSED) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(INTERRUPTED) from error


def application() -> typer.Typer:
    """The whole command line with every registered command."""
    app = typer.Typer(
        cls=ErrorReportingGroup,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog=_help_examples(FIRST_STEPS),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_whyformer)
    for entry in commands.values():
        shown = _help_examples(entry.examples)
        app.command(entry.name, rich_help_panel=entry.heading, epilog=shown)(entry.run)
    return app


def _help_examples(examples: tuple[str, ...]) -> str | None:
    """The examples as the foot of a help page; blank lines keep typer from joining them."""
    lines = "\n\n".join(f"  [cyan]{example}[/cyan]" for example in examples)
    return f"Examples:\n\n{lines}" if examples else None


def _version(wanted: bool) -> None:
    if wanted:
        stdout_console().print(f"whyformer {__version__}")
        raise typer.Exit


def _whyformer(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
) -> None:
    """Which inputs made a transformer say that, and how far can the answer be trusted?"""
