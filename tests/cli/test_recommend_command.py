"""`whyformer recommend`: what it prints and writes, and what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]
TEXTS = (
    "a gripping, beautifully acted film",
    "dull and far too long",
    "the plot is a mess",
    "a warm, funny and honest story",
    "nothing here works",
    "one of the best films of the year",
)


@pytest.fixture(autouse=True)
def calmer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing; transformers keeps its voice for the rest of the session."""
    monkeypatch.setattr("whyformer.cli.progress.silence_transformers", lambda: None)


@pytest.fixture
def reviews(tmp_path: Path) -> Path:
    rows = [f'"{text}"' for text in TEXTS]
    (tmp_path / "my.csv").write_text("\n".join(["review", *rows]), encoding="utf-8")
    return tmp_path / "my.csv"


def test_a_recommendation_on_the_bundled_model_from_end_to_end(run: Run, reviews: Path) -> None:
    result = run(
        "recommend --model sst2 --data csv:my.csv,text=review --methods"
        " 'random,attn_lrp,lrp_ah_ln(activations=identity, detach_mean=false)'"
        " --html a.html --png a.png --json a.json --svg a.svg"
    )
    assert result.exit_code == 0, result.output
    assert "6 samples can only show large differences" in result.stdout
    assert "lrp_ah_ln(activations=identity, detach_mean=False)" in result.stdout
    assert "auac ↑" in result.stdout
    assert "deletion ↓" in result.stdout
    assert "round 1, 3 methods" in result.stderr
    for name in ("a.html", "a.png", "a.json", "a.svg"):
        assert f"wrote {name}" in result.stderr
        assert (reviews.parent / name).stat().st_size > 500
    numbers = json.loads((reviews.parent / "a.json").read_text("utf-8"))
    assert numbers["samples"] == 6
    assert numbers["sentence"].split(":")[0] in result.stdout


def test_a_file_is_opened_by_its_suffix_and_quiet_prints_nothing(run: Run, tmp_path: Path) -> None:
    lines = [json.dumps({"text": text}) for text in TEXTS[:3]]
    (tmp_path / "my.jsonl").write_text("\n".join(lines), encoding="utf-8")
    result = run("recommend --data my.jsonl --methods random,gae --limit 2 --quiet --json a.json")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert json.loads((tmp_path / "a.json").read_text("utf-8"))["samples"] == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--methods gae,nonsense", "nonsense"),
        ("--methods gae", "at least two methods"),
        ("--methods ,", "--methods is empty"),
        ("--metrics nonsense", "nonsense"),
        ("--metrics token_f1", "has no rationale"),
        ("--seconds 0", "seconds=0.0 is no time"),
        ("--limit 1", "too few to compare"),
        ("--workers 0", "workers=0 is not"),
        ("--dtype nonsense", "--dtype float32"),
        ("--data nowhere.csv", "nowhere.csv"),
        ("--data nonsense", "names no dataset"),
        ("--html none/a.html", "no folder 'none'"),
        ("--fill nonsense --methods gae,random", "fill='nonsense' is unknown"),
    ],
)
def test_mistakes_are_one_line(run: Run, line: str, message: str) -> None:
    result = run(f"recommend --model sst2 {line}")
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
