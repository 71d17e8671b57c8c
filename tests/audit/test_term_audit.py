"""Terms in texts: figures by hand, a planted term that must lead, samples that are left out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import whyformer as wf
from tests.audit.test_name_audit import planted
from whyformer.audit import audit_terms
from whyformer.audit.scored_words import KINDS, Hit
from whyformer.audit.term_tables import MethodFindings, charts, headline, term_tables
from whyformer.audit.word_lists import read_terms
from whyformer.datasets import Sample, open_dataset
from whyformer.errors import InputError
from whyformer.models.load import Loaded
from whyformer.statistics.bootstrap import Bootstrap

TEXTS = [
    "the film is good",
    "Anna's film was dull, dull!",
    "it is not bad",
    "Bob saw the film by Anna and it was good.",
]


def row(sample: str, shares: tuple[float, ...], top: str) -> dict[str, Any]:
    return {
        "method": "gae",
        "sample": sample,
        "text": sample * 100,
        "target": "positive",
        **{f"share of {kind}": share for kind, share in zip(KINDS, shares, strict=True)},
        **{f"tokens of {kind}": 0.25 for kind in KINDS},
        "away": 1 - shares[0],
        "top word": "film",
        "top kind": top,
    }


def by_hand() -> MethodFindings:
    """Two samples: 'film' leads in one of two, 'plot' trails in one."""
    film = [Hit(0, 1.0, 0.4, 0.4, 0.1, True, 0.25), Hit(1, 3.0, 0.2, 0.2, 0.3, False, 0.5)]
    plot = [Hit(1, -1.0, 0.1, 0.1, 0.2, False, 0.5)]
    return MethodFindings(
        rows=[
            row("s0", (0.7, 0.1, 0.1, 0.1), KINDS[0]),
            row("s1", (0.3, 0.2, 0.2, 0.3), KINDS[1]),
        ],
        terms={"film": film, "plot": plot, "absent": []},
        words={"film": film, "plot": plot},
    )


def test_tables_by_hand() -> None:
    terms = read_terms({"x": ["film"], "y": ["plot", "absent"]})
    tables = term_tables({"gae": by_hand()}, terms, Bootstrap(100), min_count=1)
    film, absent, plot = sorted(
        tables["terms"].records(), key=lambda r: ("film", "absent", "plot").index(r["term"])
    )
    assert (film["samples"], film["relevance"]) == (2, pytest.approx(2.0))
    assert film["share per word"] == pytest.approx(0.3)
    assert film["other words"] == pytest.approx(0.2)
    assert film["lead"] == pytest.approx(0.1)
    assert (film["low"], film["high"]) == pytest.approx((-0.1, 0.3))
    assert (film["top word"], film["by chance"]) == pytest.approx((0.5, 0.375))
    assert (plot["lead"], plot["samples"]) == (pytest.approx(-0.1), 1)
    assert (absent["samples"], absent["lead"]) == (0, None)
    (apart,) = tables["term_differences"].records()
    assert apart["difference"] == pytest.approx(0.3 - 0.1)
    kinds = {r["kind"]: r for r in tables["attention"].records()}
    assert kinds["content words"]["share"] == pytest.approx(0.5)
    assert kinds["content words"]["times even"] == pytest.approx(2.0)
    assert kinds["content words"]["top word"] == pytest.approx(0.5)
    assert [r["sample"] for r in tables["away"].records()] == ["s1", "s0"]
    assert tables["away"].records()[0]["not on content"] == pytest.approx(0.7)
    assert len(str(tables["away"].records()[0]["text"])) == 120
    assert [r["word"] for r in tables["words"].records()] == ["film", "plot"]
    assert "function words 15.0 %" in " ".join(headline(tables))


def test_a_sample_of_nothing_else_is_not_compared() -> None:
    alone = Hit(2, 1.0, 0.9, 0.9, None, True, 1.0)
    gathered = by_hand()
    gathered.terms["film"].append(alone)
    gathered.terms["plot"] = [alone]
    found = term_tables({"gae": gathered}, read_terms(["film", "plot"]), Bootstrap(50), 1)
    film, plot = sorted(found["terms"].records(), key=lambda r: str(r["term"]))
    assert film["samples"] == 3
    assert film["share per word"] == pytest.approx(0.3)
    assert film["lead"] == pytest.approx(film["share per word"] - film["other words"])
    assert plot["share per word"] == pytest.approx(0.9)
    assert plot["lead"] is None


def test_words_are_ranked_by_what_the_chart_shows() -> None:
    """A word can have a large share only because its samples are short: "at" in two words."""
    short = [Hit(i, 1.0, 0.45, 0.45, 0.55, False, 0.5) for i in range(4)]
    long = [Hit(i, 1.0, 0.3, 0.3, 0.05 + i / 100, True, 0.1) for i in range(4)]
    gathered = MethodFindings(by_hand().rows, {}, {"at": short, "dull": long, "fun": long[:3]})
    tables = term_tables({"gae": gathered}, None, Bootstrap(50), min_count=1)
    words = [str(record["word"]) for record in tables["words"].records()]
    assert words == ["fun", "dull", "at"]
    chart = next(one for one in charts(tables) if "word" in one.title)
    assert [point.label for point in chart.points] == words
    values = [point.estimate.value for point in chart.points]
    assert values == sorted(values, reverse=True)
    last = headline(tables)[-1]
    assert "'fun' 24.0 %, 'dull' 23.5 %." in last
    assert "'at'" not in last
    only = MethodFindings(by_hand().rows, {}, {"at": short})
    none = term_tables({"gae": only}, None, Bootstrap(50), min_count=1)
    assert headline(none)[-1] == (
        "No word has significantly more relevance than the others (1 tested)."
    )


def test_rare_words_are_not_ranked() -> None:
    tables = term_tables({"gae": by_hand()}, None, Bootstrap(10), min_count=2)
    assert [r["word"] for r in tables["words"].records()] == ["film"]
    assert "terms" not in tables


# -- with a model --------------------------------------------------------------------------------


def test_every_row_is_what_explain_says(tiny: Loaded) -> None:
    found = audit_terms(TEXTS, tiny, terms=["Anna", "dull"], min_count=1, draws=20, batch=3)
    assert [r["text"] for r in found.rows] == TEXTS
    assert [list(r["terms"]) for r in found.rows] == [[], ["Anna", "dull"], [], ["Anna"]]
    row = found.rows[1]
    a = wf.explain(TEXTS[1], tiny.module, processor=tiny.processor)
    assert a.tokens is not None
    tokens = a.tokens[0]
    scores = a.scores[0]
    dull = [i for i, token in enumerate(tokens) if token == "dull"]
    assert row["term relevance"][1] == pytest.approx(float(scores[dull].sum()), abs=1e-4)
    share = float(scores[dull].abs().sum() / scores.abs().sum())
    assert row["term share"][1] == pytest.approx(share, abs=1e-4)
    assert row["target"] == a.labels[0]
    special = [0, len(tokens) - 1]
    assert row["share of special tokens"] == pytest.approx(
        float(scores[special].abs().sum() / scores.abs().sum()), abs=1e-4
    )
    assert sum(row[f"share of {kind}"] for kind in KINDS) == pytest.approx(1.0)
    terms = {r["term"]: r for r in found.tables["terms"].records()}
    assert (terms["Anna"]["samples"], terms["dull"]["samples"]) == (2, 1)


def test_a_planted_term_leads(sst2: Loaded) -> None:
    """A name that means 'terrible' to the model carries more than the words around it."""
    texts = [template.replace("{name}", "David") for template in PLAIN]
    model = planted(sst2, ["David"], "terrible")
    found = audit_terms(texts, model, terms=["David", "film"], min_count=3, draws=200)
    terms = {r["term"]: r for r in found.tables["terms"].records()}
    assert terms["David"]["low"] > 0
    assert terms["David"]["top word"] >= 0.8
    assert found.tables["words"].records()[0]["word"] == "david"
    assert any("have more relevance" in line and "'David'" in line for line in found.headline)
    assert "'David' is the top word" in found.examples[0].caption


PLAIN = [
    "{name} plays the main part in the film.",
    "The film was directed by {name}.",
    "I watched this film with {name} on Tuesday.",
    "The camera follows {name} through the city.",
    "At the end of the film {name} stays behind.",
]


def test_without_terms_all_words_are_ranked(tiny: Loaded) -> None:
    found = audit_terms(TEXTS, tiny, min_count=2, draws=20)
    assert {r["word"] for r in found.tables["words"].records()} >= {"film", "good", "is"}
    assert "terms" not in found.tables
    assert found.settings["terms"] is None


def test_empty_texts_are_left_out_and_counted(tiny: Loaded) -> None:
    found = audit_terms(["the film", "", "  \n", "\u200b"], tiny, draws=5)
    assert len(found.rows) == 1
    assert found.settings["skipped because empty"] == 3
    assert "3 texts are empty" in found.notes[0]
    with pytest.raises(InputError, match="no text that can be explained: all 2 are empty"):
        audit_terms(["", " "], tiny)


def test_a_dataset_is_read_drawn_and_its_damage_counted(tiny: Loaded, tmp_path: Path) -> None:
    lines = [f'{{"text": "the film is good {i}"}}' for i in range(9)]
    (tmp_path / "d.jsonl").write_text("\n".join([*lines, '{"text": ""}']), encoding="utf-8")
    source = f"jsonl:{tmp_path / 'd.jsonl'}"
    with pytest.raises(InputError, match="on_error='skip'"):
        audit_terms(source, tiny)
    found = audit_terms(source, tiny, on_error="skip", draws=5)
    assert (len(found.rows), found.settings["skipped because unreadable"]) == (9, 1)
    few = audit_terms(source, tiny, on_error="skip", limit=4, seed=1, draws=5)
    again = audit_terms(source, tiny, on_error="skip", limit=4, seed=1, draws=5)
    assert [r["sample"] for r in few.rows] == [r["sample"] for r in again.rows]
    assert few.to_dict() == again.to_dict()
    opened = open_dataset(source, on_error="skip")
    assert len(audit_terms(opened, tiny, draws=5).rows) == 9


def test_pairs_of_texts_are_read(tiny: Loaded) -> None:
    found = audit_terms([("the film", "Anna saw it")], tiny, terms=["Anna"], min_count=1, draws=5)
    assert found.rows[0]["terms"] == ["Anna"]
    assert found.rows[0]["text"] == "the film | Anna saw it"


def test_long_texts_are_cut_where_that_was_asked_for(tiny: Loaded) -> None:
    long = "the film is good and " * 8 + "Anna"
    with pytest.raises(InputError, match="truncation=True"):
        audit_terms([long], tiny)
    found = audit_terms([long, "Anna"], tiny, terms=["Anna"], truncation=True, draws=5)
    assert [list(r["terms"]) for r in found.rows] == [[], ["Anna"]]
    assert found.rows[0]["tokens"] == 24


def test_a_fixed_target_is_explained_for_all(tiny: Loaded) -> None:
    found = audit_terms(TEXTS, tiny, target="negative", draws=5)
    assert {r["target"] for r in found.rows} == {"negative"}


def test_own_function_words(tiny: Loaded, tmp_path: Path) -> None:
    (tmp_path / "small.txt").write_text("film\nGOOD\n", encoding="utf-8")
    found = audit_terms(["film good"], tiny, function_words=tmp_path / "small.txt", draws=5)
    assert found.rows[0]["share of content words"] == 0


def test_what_is_no_text_is_refused(tiny: Loaded) -> None:
    with pytest.raises(InputError, match="sample 7 is a dict"):
        audit_terms([Sample("7", {"image": "x.png"})], tiny)
    with pytest.raises(InputError, match="there are no samples"):
        audit_terms([], tiny)
    with pytest.raises(InputError, match="names no dataset"):
        audit_terms("nowhere", tiny)


def test_absent_terms_are_told(tiny: Loaded) -> None:
    found = audit_terms(TEXTS, tiny, terms=["zebra", "film"], draws=5)
    assert any("Not found in any sample: zebra." in note for note in found.notes)
