"""`whyformer.toml`: defaults from the working folder, and shell completion."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from whyformer.cli.app import application

Run = Callable[..., Any]


def write(folder: Path, text: str) -> None:
    (folder / "whyformer.toml").write_text(text, encoding="utf-8")


def test_defaults_come_from_the_file(
    run: Run, fake_explain: Any, loads: Any, tmp_path: Path
) -> None:
    write(tmp_path, 'model = "mine"\n[explain]\nmethod = "gae"\nmax_new_tokens = 7\nbars = true')
    result = run("explain film")
    assert result.exit_code == 0, result.output
    assert loads == ["mine"]
    assert fake_explain.keywords["method"] == "gae"
    assert fake_explain.keywords["max_new_tokens"] == 7
    assert result.stderr == (
        "note: from whyformer.toml: --model = 'mine', --method = 'gae', --max-new-tokens = '7',"
        " --bars = True\n"
    )


def test_the_command_line_comes_first(
    run: Run, fake_explain: Any, loads: Any, tmp_path: Path
) -> None:
    write(tmp_path, 'model = "mine"\n[explain]\nmodel = "this"\noption = ["start_layer=1"]')
    assert run("explain film").exit_code == 0
    assert fake_explain.keywords["start_layer"] == 1
    result = run("explain film --model other -o start_layer=2")
    assert result.stderr == ""
    assert fake_explain.keywords["start_layer"] == 2
    assert run("compare film").exit_code == 0
    assert loads == ["this", "other", "mine"]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ('modle = "sst2"', ("'modle'", "no such option", "Did you mean 'model'?")),
        ("[explian]\nbars = true", ("[explian]", "Did you mean 'explain'?")),
        ("[explain]\nbras = true", ("'bras' in [explain]", "Did you mean 'bars'?")),
        ("[explain]\nbars = 1", ("bars = 1", "true or false")),
        ("[explain]\nlimit = true", ("limit = True", "a text or a number")),
        ("limit = [1, 2]", ("limit = [1, 2]",)),
        ('png = "a.png"', ("'png', which writes a file", "--png")),
        ('[evaluate]\nout = "runs"', ("'out', which writes a file", "--out")),
        ("model = ", ("cannot be read", "at end of document")),
        ("a = " + "[" * 5000, ("whyformer.toml",)),
        ("#" * 200_000, ("more than 100000 bytes",)),
    ],
)
def test_mistakes_are_errors(
    run: Run, fake_explain: Any, tmp_path: Path, text: str, pieces: tuple[str, ...]
) -> None:
    write(tmp_path, text)
    result = run("explain film")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: whyformer.toml")
    for piece in pieces:
        assert piece in result.stderr
    assert not fake_explain.calls


def test_flags_have_no_value_on_the_help_page(run: Run) -> None:
    for line in ("--help", "explain --help", "compare --help", "explore --help"):
        assert "<bool>" not in run(line).stdout


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("whyformer exp", {"explain", "explore"}),
        ("whyformer explain --max", {"--max-new-tokens"}),
        ("whyformer explain --method full", {"full_lrp"}),
        ("whyformer compare x --model detr", {"detr_shapes"}),
    ],
)
def test_the_shell_completes(tmp_path: Path, typed: str, wanted: set[str]) -> None:
    env = {"_WHYFORMER_COMPLETE": "complete_fish", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    env["_TYPER_COMPLETE_ARGS"] = typed
    result = CliRunner(env=env).invoke(application(), [], prog_name="whyformer")
    assert {line.split("\t")[0] for line in result.stdout.splitlines()} == wanted


def test_completion_can_be_installed(run: Run) -> None:
    assert "--install-completion" in run("--help").stdout
