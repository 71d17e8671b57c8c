"""Summaries of real models: shares that sum up, two models, images, terms, files and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whyformer as wf
from whyformer.batching.progress import Progress
from whyformer.errors import InputError, OptionError
from whyformer.summarize import run_summary, summarize
from whyformer.workers import EngineOptions

TEXTS = ["a dull film", "a dull, tired plot. It is slow.", "a warm film", "warm and clever"]


@pytest.fixture(scope="module")
def found() -> Any:
    return summarize(TEXTS, terms=["film", "plot"], min_count=1, draws=20)


def test_words_are_ranked_for_the_class_they_speak_for(found: Any) -> None:
    rows = found.tables["supporting"].records()
    first = {row["class"]: row["word"] for row in reversed(rows)}
    assert first["negative"] == "dull"
    assert first["positive"] in ("warm", "clever")


def test_shares_are_those_of_the_explanation(found: Any) -> None:
    a = wf.explain(TEXTS[0])
    total = a.scores.abs().sum()
    expected = {word: float(score / total) for word, score in a[0].words() if word[0] != "["}
    row = found.rows[0]
    assert dict(zip(row["parts"], row["shares"], strict=True)) == pytest.approx(expected, abs=1e-5)


def test_the_share_on_terms_counts_every_place_of_a_term(found: Any) -> None:
    a = wf.explain(TEXTS[0])
    shares = dict(zip([w for w, _ in a[0].words()], a.scores[0].abs(), strict=True))
    expected = float(shares["film"] / a.scores.abs().sum())
    assert found.rows[0]["share on terms"] == pytest.approx(expected, abs=1e-5)
    assert found.rows[3]["share on terms"] == 0
    assert {row["class"] for row in found.tables["terms"].records()} == {"positive", "negative"}


def test_two_models_side_by_side() -> None:
    both = summarize(TEXTS, "sst2", other="sst2", min_count=1, draws=20)
    assert {row["model"] for row in both.rows} == {"sst2", "sst2 (2)"}
    assert all(row["difference"] == 0 for row in both.tables["models"].records())
    assert "100.0 %" in both.headline[-1]


def test_sentences_and_images() -> None:
    sentences = summarize(TEXTS, unit="sentences", min_count=1, draws=20)
    assert "It is slow." in sentences.rows[1]["parts"]
    digits = wf.models()["mnist"].samples()[:3]
    positions = summarize(digits, min_count=1, draws=20)
    assert positions.settings["unit"] == "positions"
    assert sum(map(abs, positions.rows[0]["shares"])) == pytest.approx(1, abs=1e-5)


def test_findings_are_written_and_become_tables(found: Any, tmp_path: Path) -> None:
    from pyarrow import parquet

    found.save(tmp_path)
    assert len(parquet.read_table(tmp_path / "rows.parquet")) == len(TEXTS)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "speak most for each class" in page
    assert list(found.to_pandas("supporting").columns)[:3] == ["model", "class", "word"]
    assert len(found.to_pandas()) == len(TEXTS)
    with pytest.raises(InputError, match="no table 'words'"):
        found.to_pandas("words")


def test_progress_comes_before_the_result() -> None:
    *steps, last = run_summary(TEXTS, min_count=1, draws=5, batch=2)
    done = [(step.done, step.total) for step in steps if isinstance(step, Progress)]
    assert done == [(0, 4), (2, 4), (4, 4)]
    assert last.kind == "summary"


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([], {}, InputError, "there are no samples"),
        (["", " "], {}, InputError, "are empty"),
        (TEXTS, {"unit": "positions"}, OptionError, "'words' or 'sentences'"),
        (TEXTS, {"min_count": 0}, OptionError, "min_count=0"),
        ([*TEXTS, Path("x.png")], {}, InputError, "mixes texts and images"),
        (TEXTS, {"terms": []}, InputError, "terms"),
    ],
)
def test_mistakes_are_named(data: Any, options: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        summarize(data, draws=5, **options)


@pytest.mark.slow
def test_two_processes_find_the_same() -> None:
    options = {"terms": ["film", "plot"], "min_count": 1, "draws": 20, "batch": 2}
    alone = summarize(TEXTS, **options)
    both = summarize(TEXTS, **options, engine=EngineOptions(workers=2))
    assert both.rows == alone.rows
    assert both.tables == alone.tables
