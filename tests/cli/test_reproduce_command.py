"""`whyformer reproduce`: what it asks for, shows, writes and refuses."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.reproduce.making import BACE, MNIST, digits, molecules
from whyformer.cli import reproduce as command
from whyformer.reproduce.experiments import EXPERIMENTS
from whyformer.reproduce.recipes import RECIPES

pytestmark = pytest.mark.slow

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of small data, and recipes that take a second."""
    monkeypatch.delenv("WHYFORMER_DATA", raising=False)
    for recipe in (BACE, MNIST):
        monkeypatch.setitem(RECIPES, recipe.name, recipe)
    molecules(tmp_path / "data")
    digits(tmp_path / "data")
    return tmp_path


TWO = "--methods gradient_x_input,Random --limit 3"


def test_the_whole_way(run: Run, small: Path) -> None:
    result = run(f"reproduce ali2022 --data data {TWO}")
    assert result.exit_code == 0, result.stderr
    table = (small / "runs" / "reproduce" / "ali2022" / "table.md").read_text(encoding="utf-8")
    assert result.stdout == table  # into a file or a pipe goes Markdown as it is
    assert "| method | BACE | paper | MNIST | paper |" in table
    assert "| 0.646 |" in table
    assert "- SST-2: the data folder has no sst2" in table
    assert "SEMAINE" in table
    assert "BACE: 100 %" in result.stderr
    assert "wrote runs/reproduce/ali2022/table.md" in result.stderr
    assert (small / "runs/reproduce/models/bace/trained.json").is_file()
    again = run(f"reproduce ali2022 --data data {TWO}")
    assert again.stdout == result.stdout


def test_parts_out_and_quiet(run: Run, small: Path) -> None:
    result = run(f"reproduce ali2022 --data data --parts mnist {TWO} --out there -q")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    table = (small / "there" / "ali2022" / "table.md").read_text(encoding="utf-8")
    assert "| method | MNIST | paper |" in table
    assert "SST-2" not in table
    assert sorted(path.name for path in (small / "there" / "models").iterdir()) == ["mnist"]


def test_a_part_and_an_experiment_are_resumed(
    run: Run, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = f"reproduce ali2022 --data data --parts bace,mnist {TWO} --out there -q"
    monkeypatch.setattr(sys, "argv", ["whyformer", *shlex.split(line)])
    assert run(line).exit_code == 0
    place = small / "there" / "ali2022"
    for folder, back in ((place / "mnist", ["mnist"]), (place, ["bace", "mnist"])):
        for part in ("bace", "mnist"):
            (place / part / "settings.json").unlink(missing_ok=True)
        result = run(f"runs resume {folder} --workers 1")
        assert result.exit_code == 0, result.stderr
        assert "resuming: whyformer reproduce ali2022" in result.stderr
        assert sorted(file.parent.name for file in place.glob("*/settings.json")) == back
    listed = run("runs list there/ali2022").stdout
    assert "mnist" in listed
    assert "there/ali2022 " not in run("runs list there").output


def test_data_from_the_environment(run: Run, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHYFORMER_DATA", str(small / "data"))
    result = run(f"reproduce ali2022 --parts mnist {TWO}")
    assert result.exit_code == 0, result.stderr
    assert "| method | MNIST | paper |" in result.stdout
    monkeypatch.setenv("WHYFORMER_DATA", "nowhere")
    result = run("reproduce ali2022")
    assert result.exit_code == 2
    assert "error: WHYFORMER_DATA 'nowhere' is not a folder" in result.stderr


def test_tables_fit_a_terminal(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn, one part under the other where two would not fit."""
    from rich.console import Console

    def terminal() -> Console:
        return Console(width=80, force_terminal=True, color_system=None)

    monkeypatch.setattr(command, "stdout_console", terminal)
    result = run(f"reproduce ali2022 --data data --parts bace,mnist {TWO}")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.split("\n")
    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if line.strip().startswith("method")]
    assert heads == [["method", name, "paper"] for name in ("BACE", "MNIST")] + [
        ["method", name] for name in ("BACE", "MNIST")
    ]
    row = next(line for line in lines if line.strip().startswith("GI"))
    assert row.split()[-1] == "0.646"  # whole numbers, not broken over lines


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("reproduce ali2023", "there is no experiment 'ali2023'. Did you mean 'ali2022'?"),
        ("reproduce ali2022 --data nowhere", "--data 'nowhere' is not a folder"),
        ("reproduce ali2022 --parts mnst", "ali2022 has no part 'mnst'. Did you mean 'mnist'?"),
        ("reproduce ali2022 --methods geo", "ali2022 has no method 'geo'. Did you mean 'gae'?"),
        ("reproduce ali2022 --limit 0", "limit=0 leaves no sample"),
        ("reproduce ali2022 --base data", "the base 'data' is not a model folder"),
        (
            "reproduce ali2022 --data data --parts bace --out data/bace/bace.csv",
            "cannot be created",
        ),
    ],
)
def test_mistakes_are_one_line(run: Run, line: str, message: str) -> None:
    result = run(line)
    assert result.exit_code == 2
    last = result.stderr.strip().split("\n")[-1]
    assert last.startswith("error: ")
    assert message in last
    assert "Traceback" not in result.stderr


def test_help_names_the_experiments(run: Run) -> None:
    message = run("reproduce --help").stdout
    for name in (*EXPERIMENTS, "WHYFORMER_DATA", "--parts", "--base"):
        assert name in message


def test_the_command_line_starts_without_transformers() -> None:
    """Every command gathers all commands: what one of them needs is imported when it runs."""
    script = (
        "import sys; from whyformer.cli.app import application; application()\n"
        "print([name for name in ('transformers', 'tokenizers') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env=os.environ,
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")
