"""`whyformer audit`: names and terms, what it shows and writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.audit.making import classifier, wordpiece
from whyformer.models.load import Loaded

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The models that were asked for; all are one tiny one."""
    fake_explain: list[Any] = []

    def load(model: Any, *more: Any) -> Loaded:
        fake_explain.append(model)
        return Loaded(classifier(), wordpiece(), model or "its name")

    monkeypatch.setattr("whyformer.cli.audit.load_model", load)
    return fake_explain


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Names, templates, terms and texts of one's own."""
    (tmp_path / "names.csv").write_text("Anna,a\nBob,b\nCy,b\n", encoding="utf-8")
    (tmp_path / "templates.txt").write_text("by {name}\n{name}'s film\n", encoding="utf-8")
    (tmp_path / "terms.txt").write_text("Anna\nfilm\n", encoding="utf-8")
    texts = ["text", "the film by Anna is good", "Anna saw a film", "it is bad and dull"]
    (tmp_path / "texts.csv").write_text("\n".join(texts), encoding="utf-8")
    return tmp_path


OWN = "audit names --names names.csv --templates templates.txt --draws 20"


def test_names(run: Run, files: Path) -> None:
    result = run(OWN)
    assert result.exit_code == 0, result.stderr
    assert "6 explanations by libragrad, target: positive" in result.stdout
    for title in ("Relevance of names, by group", "Differences between groups", "Replaced names"):
        assert title in result.stdout
    assert "note: Only 1 name per group" in result.stderr


def test_every_label_is_there_at_80_columns(run: Run, files: Path) -> None:
    result = run(OWN, width=80)
    assert result.exit_code == 0, result.stderr
    assert "…" not in result.stdout
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    for piece in ("group a, minus group b", "libragrad  relevance", "model      output", "Anna"):
        assert piece in result.stdout


def test_names_without_any_option(run: Run, tiny: list[Any]) -> None:
    result = run("audit names --per-group 2 --draws 5")
    assert result.exit_code == 0, result.stderr
    assert tiny == [None]
    assert "120 explanations" in result.stdout
    assert "female" in result.stdout


def test_terms(run: Run, files: Path) -> None:
    result = run("audit terms --data csv:texts.csv --terms terms.txt --min-count 1 --draws 20")
    assert result.exit_code == 0, result.stderr
    assert "3 explanations by libragrad, target: predicted class" in result.stdout
    for title in (
        "Relevance of the terms",
        "Relevance by kind of word",
        "Words with the most relevance",
    ):
        assert title in result.stdout


def test_results_are_written(run: Run, files: Path) -> None:
    result = run(f"{OWN} --methods lrp_ah_ln,gae --target negative --seed 7 --out found -q")
    assert (result.exit_code, result.stdout) == (0, ""), result.stderr
    assert "wrote found" in result.stderr
    told = json.loads((files / "found" / "audit.json").read_text(encoding="utf-8"))
    assert told["settings"]["methods"] == ["lrp_ah_ln", "gae"]
    assert told["settings"]["target"] == "negative"
    assert told["settings"]["seed"] == 7
    assert told["explanations"] == 12
    assert {path.name for path in (files / "found").iterdir()} == {
        "audit.json",
        "rows.parquet",
        "report.html",
    }


def test_samples_that_cannot_be_explained_are_left_out(run: Run, files: Path) -> None:
    long = "the film is good and " * 8
    with (files / "texts.csv").open("a", encoding="utf-8") as file:
        file.write(f"\n{long}\n")
    result = run("audit terms --data csv:texts.csv --draws 5")
    assert result.exit_code == 2
    assert "--truncation" in result.stderr
    result = run("audit terms --data csv:texts.csv --draws 5 --skip-errors")
    assert result.exit_code == 0, result.stderr
    assert "3 explanations" in result.stdout
    assert "1 sample could not be explained" in result.stderr


def test_long_tables_are_cut_in_the_terminal(run: Run, files: Path) -> None:
    (files / "terms.txt").write_text("\n".join(f"word{i}" for i in range(20)), encoding="utf-8")
    result = run("audit terms --data csv:texts.csv --terms terms.txt --draws 5")
    assert "and 8 more, all in the files of --out FOLDER" in result.stdout


def test_signs_that_a_terminal_obeys_are_shown_as_signs(run: Run, files: Path) -> None:
    (files / "evil.jsonl").write_text('{"text": "film \\u001b]0;x good"}', encoding="utf-8")
    result = run("audit terms --data jsonl:evil.jsonl --min-count 1 --draws 5")
    assert result.exit_code == 0, result.stderr
    assert "\x1b]" not in result.stdout


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("audit terms", "an audit of terms needs a dataset. Write --data NAME:PATH"),
        ("audit names --data csv:x.csv", "--data belongs to 'whyformer audit terms'"),
        ("audit names --limit 3", "--limit belongs to 'whyformer audit terms'"),
        ("audit names --skip-errors", "--skip-errors belongs to 'whyformer audit terms'"),
        ("audit terms --data csv:texts.csv --per-group 3", "--per-group belongs to"),
        ("audit names --names us_gendr", "Did you mean 'us_gender'?"),
        ("audit names --templates none.txt", "there is no file 'none.txt' to read templates from"),
        ("audit names --methods gea", "there is no method called 'gea'. Did you mean 'gae'?"),
        ("audit names --methods ,", "is empty"),
        ("audit names --target nice --per-group 1", "there is no class 'nice'"),
        ("audit names --draws 0", "draws=0"),
        ("audit names --workers 0", "workers=0 is not"),
        ("audit names --threads 0", "threads=0 is not"),
        ("audit names --out names.csv", "--out 'names.csv' is a file. Name a folder"),
        ("audit terms --data nowhere", "names no dataset"),
        ("audit terms --data csv:none.csv", "none.csv"),
        ("audit terms --data csv:texts.csv --terms none.txt", "to read terms from"),
    ],
)
def test_mistakes_are_one_line(run: Run, files: Path, line: str, message: str) -> None:
    result = run(line)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert "Traceback" not in result.stderr


def test_what_is_neither_is_refused(run: Run) -> None:
    result = run("audit people")
    assert result.exit_code == 2
    assert "names" in result.stderr


def test_help_names_the_lists(run: Run) -> None:
    message = run("audit --help").stdout
    for name in ("us_gender", "us_origin", "us_resumes", "us_age", "--terms", "--templates"):
        assert name in message
