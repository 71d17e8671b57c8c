"""The command line: one file per sub-command, found by `whyformer.cli.app`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

COMPLETION = "_WHYFORMER_COMPLETE"  # set by the shell that asks for completions


def main() -> None:
    """Run the command in sys.argv and exit with its code."""
    arguments = sys.argv[1:]
    if arguments in ([], ["-h"], ["--help"], ["--version"]) and COMPLETION not in os.environ:
        from whyformer.cli.front_page import front_page

        front_page()()
    from whyformer.cli.app import application
    from whyformer.cli.config import CONFIG

    application(None if Path(CONFIG).exists() else _command_name(arguments))()


def _command_name(arguments: list[str]) -> str | None:
    """The command that is asked for, if it is one: then the others need not be imported."""
    from whyformer.cli.front_page import command_names

    name = arguments[0] if arguments else None
    return name if name in command_names() else None
