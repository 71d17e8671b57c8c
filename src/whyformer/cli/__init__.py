"""The command line: one file per sub-command; they register by existing."""

from __future__ import annotations


def main() -> None:
    """Runs the command that sys.argv names and ends the process with its exit code."""
    from whyformer.cli.app import application

    application()()
