"""The two streams of a terminal: results on one, everything else on the other."""

from __future__ import annotations

import logging
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.text import Text

from whyformer.errors import ConservationWarning

# Refusals name Python arguments; whoever reads them here has typed options.
TYPED = (
    (re.compile(r"\btarget=wf\.query\(index, label\)"), "--query N --target LABEL"),
    (re.compile(r"\btruncation=True"), "--truncation"),
    (re.compile(r"\bon_error='skip'"), "--skip-errors"),
    (re.compile(r"\b(model|deciding|method|target)=(?=[\s,;.)]|$)"), r"--\1"),
)


def stdout_console() -> Console:
    """Where results go: stdout."""
    return Console(highlight=False)


def stderr_console() -> Console:
    """Where errors, notes and the spinner go: stderr."""
    return Console(stderr=True, highlight=False)


def print_error(message: str) -> None:
    """Says in red what was refused and why, in the command line's own words."""
    for pattern, option in TYPED:
        message = pattern.sub(option, message)
    _say("error: ", "bold red", message)


def note(message: str) -> None:
    """Says in yellow what the user should know."""
    _say("note: ", "yellow", message)


def _say(kind: str, style: str, message: str) -> None:
    # soft_wrap: one line stays one line, for people who grep.
    stderr_console().print(Text.assemble((kind, style), " ".join(message.split())), soft_wrap=True)


@contextmanager
def busy(doing: str) -> Iterator[None]:
    """A scope with a spinner where somebody watches, in which only whyformer may speak.

    Warnings about conservation come out as notes when it ends; log lines and progress bars of
    transformers do not come out at all.
    """
    console = stderr_console()
    spinner = console.status(doing) if console.is_terminal else nullcontext()
    with spinner, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", ConservationWarning)
        hush()
        yield
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        note(message)


def hush() -> None:
    """Silences transformers and its hub for the rest of the process, which is the command's."""
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # read when the hub is imported
    from transformers.utils import logging as chatter

    chatter.set_verbosity_error()
    chatter.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it tells every retry
