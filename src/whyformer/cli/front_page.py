"""The help page of `whyformer` itself, without importing its commands: those import torch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from typer.core import TyperGroup

from whyformer import __version__

FLAG = ""  # the metavar of an option without a value: typer would show <bool>
FIRST_STEPS = (
    'whyformer explain "a gripping, beautifully acted film"',
    "whyformer explain --help",
)

Heading = Literal["Explain", "Measure", "Look up"]  # of the help page, in this order
HEADINGS: tuple[Heading, ...] = get_args(Heading)


def show_flags(parameters: list[Any]) -> list[Any]:
    """Return the parameters; a flag has no value that the help page could show."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = FLAG
    return parameters


class FrontGroup(TyperGroup):
    """The program as its help page shows it."""

    def get_params(self, ctx: Any) -> list[Any]:
        return show_flags(super().get_params(ctx))


def new_program(group: type[TyperGroup]) -> typer.Typer:
    """Return the program without commands."""
    app = typer.Typer(
        cls=group,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        epilog=help_examples(FIRST_STEPS),
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_whyformer)
    return app


def front_page() -> typer.Typer:
    """Return a program that can only show its help page; a test compares it with the real one."""
    app = new_program(FrontGroup)
    for name, heading, text in sorted(_outline(), key=lambda entry: HEADINGS.index(entry[1])):
        app.command(name, rich_help_panel=heading, help=text)(_nothing)
    return app


def command_names() -> list[str]:
    """Return the names of all commands, sorted."""
    return [name for name, _, _ in _outline()]


def help_examples(examples: tuple[str, ...]) -> str | None:
    """Return the last paragraph of a help page."""
    # Blank lines keep typer from joining the examples.
    lines = "\n\n".join(f"  [cyan]{example}[/cyan]" for example in examples)
    return f"Examples:\n\n{lines}" if examples else None


def _outline() -> list[tuple[str, Heading, str]]:
    """Name, heading and help text of every command, sorted by name."""
    files = Path(__file__).parent.glob("*.py")
    return sorted(entry for file in files for entry in _read(file))


def _read(file: Path) -> Iterator[tuple[str, Heading, str]]:
    """Name, heading and help text of the commands in a file, from its `@command` decorators."""
    for function in ast.parse(file.read_text(encoding="utf-8")).body:
        for call in getattr(function, "decorator_list", ()):
            if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "command":
                words = {word.arg: word.value for word in call.keywords}
                heading = ast.literal_eval(words["heading"])
                assert isinstance(function, ast.FunctionDef)
                yield ast.literal_eval(call.args[0]), heading, ast.get_docstring(function) or ""


def _nothing() -> None:
    """Stand for a command, which is never run from the help page."""


def _print_version(print_it: bool) -> None:
    if print_it:
        typer.echo(f"whyformer {__version__}")
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
