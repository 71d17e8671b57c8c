"""`--bars`, `--subwords`, `--svg` and `--pdf`, for explain and compare."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.mark.parametrize("command", ["explain film", "compare film --methods gae,rollout"])
def test_vectors_are_written(run: Run, fake_explain: Any, tmp_path: Path, command: str) -> None:
    result = run(f"{command} --quiet --svg w.svg --pdf w.pdf --png w.png")
    assert result.exit_code == 0, result.output
    assert result.stderr.splitlines() == ["wrote w.pdf", "wrote w.png", "wrote w.svg"]
    assert (tmp_path / "w.svg").read_bytes().startswith(b"<?xml")
    assert (tmp_path / "w.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "w.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("option", ["svg", "pdf"])
def test_a_file_that_cannot_be_written_is_refused(run: Run, fake_explain: Any, option: str) -> None:
    result = run(f"explain film --{option} nowhere/w.{option}")
    assert result.exit_code == 2
    assert f"--{option} 'nowhere/w.{option}' cannot be written" in result.stderr
    assert not fake_explain.calls


def test_bars_for_every_word(run: Run, fake_explain: Any) -> None:
    shown = run("explain film --bars").stdout
    good, bad = (next(x for x in shown.splitlines() if x.startswith(w)) for w in ("good ", "bad "))
    assert good.index("│") == bad.index("│")
    assert "━" in good.partition("│")[2]
    assert "━" in bad.partition("│")[0]
    compared = run("compare film --methods gae,rollout --bars").stdout
    assert next(x for x in compared.splitlines() if x.startswith("good ")).count("│") == 2


@pytest.mark.parametrize("command", ["explain", "compare --methods gae,rollout"])
def test_subwords_reach_terminal_and_pictures(
    run: Run, fake_explain: Any, tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import whyformer

    explain = whyformer.explain

    def cut(*arguments: Any, **keywords: Any) -> Any:
        from dataclasses import replace

        made = explain(*arguments, **keywords)
        stream = replace(made.streams["text"], word_ids=((0, 0),))
        return replace(made, streams={"text": stream})

    monkeypatch.setattr(whyformer, "explain", cut)
    assert "goodbad" in run(f"{command} film --png whole.png").stdout
    shown = run(f"{command} film --subwords --png apart.png").stdout
    assert "goodbad" not in shown
    assert "·bad" in shown
    assert (tmp_path / "whole.png").read_bytes() != (tmp_path / "apart.png").read_bytes()


def test_scores_as_a_table(run: Run, fake_explain: Any, tmp_path: Path) -> None:
    assert run("explain 'a film' --csv a.csv").exit_code == 0
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["text"], float(row["score"])) for row in rows] == [("good", 0.75), ("bad", -0.5)]
    assert run("compare 'a film' --methods gae,rollout --csv b.csv").exit_code == 0
    with (tmp_path / "b.csv").open(newline="", encoding="utf-8") as file:
        assert [row["method"] for row in csv.DictReader(file)] == ["gae"] * 2 + ["rollout"] * 2
