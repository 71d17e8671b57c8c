"""`whyformer methods`, `metrics`, `models`, `--version` and `--help`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import whyformer
from whyformer.cli.app import commands
from whyformer.models.bundled import BundledModel

Run = Callable[..., Any]


def test_methods_are_those_of_the_registry(run: Run) -> None:
    result = run("methods")
    assert result.exit_code == 0
    for method in whyformer.methods().values():
        assert method.name in result.stdout
        assert method.title in result.stdout


@pytest.mark.parametrize("name", list(whyformer.methods()))
def test_everything_about_one_method(run: Run, name: str) -> None:
    message = run(f"methods {name}").stdout
    method = whyformer.methods()[name]
    for piece in (method.title, method.paper, *method.promises):
        assert piece in message
    for option, default in method.options.items():
        assert f"{option}={default!r}" in message


def test_an_unknown_method_is_refused(run: Run) -> None:
    result = run("methods gea")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: there is no method called 'gea'. Did you mean 'gae'?")


def test_metrics_are_those_of_the_registry(run: Run) -> None:
    result = run("metrics")
    assert result.exit_code == 0
    for metric in whyformer.metrics().values():
        assert metric.name in result.stdout
        assert metric.title in result.stdout


@pytest.mark.parametrize("name", list(whyformer.metrics()))
def test_everything_about_one_metric(run: Run, name: str) -> None:
    result = run(f"metrics {name}")
    assert result.exit_code == 0
    message = " ".join(result.stdout.split())
    metric = whyformer.metrics()[name]
    for piece in (metric.title, metric.paper, metric.better, metric.convention, *metric.needs):
        assert " ".join(piece.split()) in message
    for option, default in metric.options.items():
        assert f"{option}={default!r}" in message


def test_an_unknown_metric_is_refused(run: Run) -> None:
    result = run("metrics aucc")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith("error: there is no metric called 'aucc'. Did you mean 'auac'?")


def test_models(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    model = BundledModel(
        name="tiny",
        title="A model [for] trying",
        task="sentiment",
        stream="text",
        folder=Path(),
        licence="Apache-2.0",
        accuracy=0.912,
        metric="on 10 sentences",
        samples_path="samples.json",
    )
    monkeypatch.setattr(whyformer, "models", lambda: {"tiny": model})
    message = run("models").stdout
    for piece in (
        "tiny",
        "A model [for] trying",
        "text",
        "91.2 %",
        "on 10 sentences",
        "Apache-2.0",
    ):
        assert piece in message
    monkeypatch.setattr(whyformer, "models", dict)
    result = run("models")
    assert result.exit_code == 0
    assert "no bundled models" in result.stderr


def test_version(run: Run) -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout) == (0, f"whyformer {whyformer.__version__}\n")


def test_help_lists_every_command(run: Run) -> None:
    for line in ("--help", "-h"):
        result = run(line)
        assert result.exit_code == 0
        assert all(name in result.stdout for name in commands)
    assert {"explain", "compare", "evaluate", "methods", "metrics", "models"} <= set(commands)


@pytest.mark.parametrize("name", list(commands))
def test_every_command_helps_with_examples(run: Run, name: str) -> None:
    result = run(f"{name} --help")
    assert result.exit_code == 0
    assert "Examples:" in result.stdout
    for example in commands[name].examples:
        assert example in result.stdout


@pytest.mark.parametrize("line", ["frobnicate", "explain --frobnicate", "explain a b"])
def test_a_wrong_call_is_an_error(run: Run, line: str) -> None:
    assert run(line).exit_code == 2


def test_the_module_runs_as_a_program() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "whyformer", "--version"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, f"whyformer {whyformer.__version__}\n")
