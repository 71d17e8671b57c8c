"""The two streams of a terminal: results on one, everything else on the other."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.text import Text

from whyformer.errors import ConservationWarning
from whyformer.models.quiet import silence_transformers

# Refusals name Python arguments; whoever reads them here has typed options.
TYPED = (
    (re.compile(r"\btarget=wf\.query\(index, label\)"), "--query N --target LABEL"),
    (re.compile(r"\btruncation=True"), "--truncation"),
    (re.compile(r"\bon_error='skip'"), "--skip-errors"),
    (re.compile(r"\b(model|deciding|method|target)=(?=[\s,;.)]|$)"), r"--\1"),
)


def result() -> Console:
    """Where results go: stdout."""
    return Console(highlight=False)


def aside() -> Console:
    """Where errors, notes and the spinner go: stderr."""
    return Console(stderr=True, highlight=False)


def complain(message: str) -> None:
    """Says in red what was refused and why, in the command line's own words."""
    for pattern, option in TYPED:
        message = pattern.sub(option, message)
    _say("error: ", "bold red", message)


def note(message: str) -> None:
    """Says in yellow what the user should know."""
    _say("note: ", "yellow", message)


def _say(kind: str, style: str, message: str) -> None:
    # soft_wrap: one line stays one line, for people who grep.
    aside().print(Text.assemble((kind, style), " ".join(message.split())), soft_wrap=True)


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """A scope with a spinner where somebody watches, in which only whyformer may speak.

    Warnings about conservation come out as notes when it ends; log lines and progress bars of
    transformers do not come out at all.
    """
    console = aside()
    spinner = console.status(doing) if console.is_terminal else nullcontext()
    with spinner, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConservationWarning)
        silence_transformers()
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)
