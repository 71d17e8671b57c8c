"""The console: results go to stdout; errors, notes and the spinner to stderr."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.text import Text

from whyformer.attribution.characters import hide_controls
from whyformer.batching.progress import Progress, report_steps_to
from whyformer.cli.error_advice import describe_error
from whyformer.errors import TrustWarning, WhyformerError
from whyformer.models.quiet import silence_transformers


def stdout_console() -> Console:
    """Return the console for results."""
    return _safe(_PipeConsole(highlight=False))


def stderr_console() -> Console:
    """Return the console for errors, notes and the spinner."""
    return _safe(Console(stderr=True, highlight=False))


def _safe(console: Console) -> Console:
    """The console; whatever is printed there cannot steer the terminal.

    Labels, column names and paths come from files. Rich's own codes are added after this.
    """
    console.push_render_hook(_HideControls())
    return console


class _PipeConsole(Console):
    """A console that falls silent if its reader leaves, as `head` does: files are still written."""

    def on_broken_pipe(self) -> None:
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _HideControls(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_WithoutControls(one) for one in renderables]


@dataclass(frozen=True)
class _WithoutControls:
    """A renderable with the control characters of its text replaced."""

    inside: ConsoleRenderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self.inside, options):
            if segment.control or segment.text == "\n":
                yield segment
            else:
                text = hide_controls(segment.text, signs={"\n": "\n", "\t": " "})
                yield Segment(text, segment.style)


def print_error(error: WhyformerError) -> None:
    """Print in one line what is wrong and which option helps."""
    _print_line("error: ", "bold red", describe_error(error))


def note(message: str) -> None:
    """Print what the user should know about the result."""
    _print_line("note: ", "yellow", message)


def print_written(path: object, more: str = "") -> None:
    """Print the name of a file that was written."""
    text = hide_controls(f"wrote {path}{more}")
    stderr_console().print(text, soft_wrap=True, markup=False)


def _print_line(kind: str, style: str, message: str) -> None:
    # soft_wrap: one line stays one line, so that grep finds it.
    stderr_console().print(Text.assemble((kind, style), " ".join(message.split())), soft_wrap=True)


@contextmanager
def busy(doing: str, notes: bool = True) -> Iterator[None]:
    """Show a spinner or a bar in a terminal and keep other packages silent.

    Doubts about explanations are printed as notes at the end; not so with notes=False, if the
    result is printed, which has a line about them. Log lines and progress bars of transformers
    are suppressed.
    """
    with _bar(doing), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        if notes:
            warnings.simplefilter("always", TrustWarning)
        silence_transformers()
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)


@contextmanager
def _bar(doing: str) -> Iterator[None]:
    """A bar of the steps that the work reports; nothing if stderr is not a terminal."""
    from whyformer.cli.progress import progress_bar  # which imports this module

    if not stderr_console().is_terminal:
        yield
        return
    with progress_bar() as report, report_steps_to(report):
        report(Progress(doing, 0, 0))
        yield
