"""The help page of the program is quick, and shows what the real program shows."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from whyformer.cli.app import application, commands
from whyformer.cli.front_page import command_names, front_page


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], []])
def test_the_front_page_is_that_of_the_program(arguments: list[str]) -> None:
    quick, real = (CliRunner().invoke(app, arguments) for app in (front_page(), application()))
    assert quick.output == real.output
    assert quick.exit_code == real.exit_code
    assert "Measure" in quick.output


def test_the_front_page_knows_every_command() -> None:
    assert command_names() == list(commands)


def test_a_program_with_one_command_shows_its_help() -> None:
    one, all_of_them = (
        CliRunner().invoke(app, ["explain", "--help"])
        for app in (application("explain"), application())
    )
    assert one.output == all_of_them.output
    assert one.exit_code == 0


@pytest.mark.parametrize("argument", ["--help", "--version"])
def test_help_and_version_are_shown_without_torch(argument: str) -> None:
    script = (
        "import sys; from whyformer.cli import main\n"
        f"sys.argv = ['whyformer', {argument!r}]\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        "assert 'torch' not in sys.modules and 'transformers' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_an_unknown_command_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whyformer", "explian"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "explian" in done.stderr
