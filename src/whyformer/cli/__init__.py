"""The command line: one file per sub-command, found by `whyformer.cli.app`."""

from __future__ import annotations


def main() -> None:
    """Run the command in sys.argv and exit with its code."""
    from whyformer.cli.app import application

    application()()
