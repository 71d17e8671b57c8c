"""Figures by hand, a bias that was planted and must be found, and none where there is none."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import whyformer as wf
from tests.audit.making import classifier, wordpiece
from whyformer.audit import Audit, audit_names, run_name_audit
from whyformer.audit.grid import NameGrid
from whyformer.audit.name_audit import DOING
from whyformer.audit.name_summary import headline
from whyformer.audit.name_tables import name_tables
from whyformer.audit.word_lists import Template, read_names
from whyformer.batching.progress import Progress
from whyformer.errors import InputError, OptionError, UnknownNameError
from whyformer.models.load import Loaded
from whyformer.statistics.bootstrap import Bootstrap

TEMPLATES = [Template("{name} is good", "positive"), Template("{name} is bad", "negative")]
NAMES = read_names({"a": ["Ann", "Bo"], "b": ["Cy"]})

# relevance, share, probability and prediction of (template, name)
CELLS = {
    (0, "Ann"): (1.0, 0.2, 0.9, "positive"),
    (0, "Bo"): (3.0, 0.4, 0.7, "positive"),
    (0, "Cy"): (0.0, 0.1, 0.4, "negative"),
    (1, "Ann"): (-1.0, 0.1, 0.6, "positive"),
    (1, "Bo"): (1.0, 0.3, 0.2, "negative"),
    (1, "Cy"): (-2.0, 0.2, 0.1, "negative"),
}
TOKENS = {"Ann": 1, "Bo": 2, "Cy": 1}


def by_hand(method: str = "lrp_ah_ln") -> list[dict[str, Any]]:
    return [
        {
            "method": method,
            "template": at,
            "group": group,
            "name": name,
            "tokens": TOKENS[name],
            "relevance": relevance,
            "share": share,
            "even_share": 0.25,
            "output": 10 * chance,
            "probability": chance,
            "prediction": label,
            "decided": label == "positive",
        }
        for group, names in NAMES.groups.items()
        for name in names
        for at in range(2)
        for relevance, share, chance, label in [CELLS[at, name]]
    ]


@pytest.fixture
def tables() -> Mapping[str, Any]:
    grids = {"lrp_ah_ln": NameGrid(by_hand(), "lrp_ah_ln", TEMPLATES, NAMES)}
    return name_tables(grids, Bootstrap(200), "positive")


def test_groups_by_hand(tables: Mapping[str, Any]) -> None:
    a, b = tables["groups"].records()
    assert (a["group"], a["names"]) == ("a", 2)
    assert a["tokens per name"] == pytest.approx(1.5)
    assert a["relevance"] == pytest.approx(1.0)
    assert (a["share"], a["even share"]) == pytest.approx((0.25, 0.25))
    assert (a["output"], a["probability"], a["decided"]) == pytest.approx((6.0, 0.6, 0.75))
    assert (b["relevance"], b["share"], b["decided"]) == pytest.approx((-1.0, 0.15, 0.0))
    assert a["low"] <= a["relevance"] <= a["high"]


def test_differences_by_hand(tables: Mapping[str, Any]) -> None:
    found = {row["measure"]: row for row in tables["differences"].records()}
    expected = {
        "relevance": 2.0,
        "share": 0.1,
        "output": 3.5,
        "probability": 0.35,
        "decided": 0.75,
    }
    assert {m: row["difference"] for m, row in found.items()} == pytest.approx(expected)
    assert {m: row["of"] for m, row in found.items()} == {
        "relevance": "lrp_ah_ln",
        "share": "lrp_ah_ln",
        "output": "model",
        "probability": "model",
        "decided": "model",
    }
    # Of the same length are Ann and Cy: (1 - 1) / 2 less (0 - 2) / 2.
    assert found["relevance"]["same length"] == pytest.approx(1.0)
    assert found["relevance"]["matched"] == 1


def test_swaps_by_hand(tables: Mapping[str, Any]) -> None:
    found = {(r["name of"], r["replaced by one of"]): r for r in tables["swaps"].records()}
    # Ann and Bo for Cy in two templates: all flip but Bo in the second.
    assert found["a", "b"]["flips"] == pytest.approx(3 / 4)
    assert found["a", "b"]["shift"] == pytest.approx((0.5 + 0.3 + 0.5 + 0.1) / 4)
    assert found["a", "a"]["flips"] == pytest.approx(1 / 2)
    assert found["a", "a"]["shift"] == pytest.approx((0.2 + 0.4) / 2)
    assert found["b", "b"]["flips"] is None  # there is nobody to swap Cy for


def test_names_tones_and_templates_by_hand(tables: Mapping[str, Any]) -> None:
    names = tables["names"].records()
    assert [n["name"] for n in names] == ["Bo", "Ann", "Cy"]
    assert [n["relevance"] for n in names] == pytest.approx([2.0, 0.0, -1.0])
    assert [n["name"] for n in tables["extremes"].records()] == ["Bo", "Cy"]
    tones = {(t["templates"], t["group"]): t for t in tables["tones"].records()}
    assert tones["positive", "a"]["probability"] == pytest.approx(0.8)
    assert tones["negative", "b"]["relevance"] == pytest.approx(-2.0)
    rows = {t["template"]: t for t in tables["templates"].records()}
    assert rows["{name} is good"]["usual prediction"] == "positive"
    assert rows["{name} is good"]["names that change it"] == 1
    assert rows["{name} is bad"]["highest probability"] == pytest.approx(0.6)


def test_the_headline_names_significant_differences(tables: Mapping[str, Any]) -> None:
    sentences = headline(tables, "positive")
    clear = [row for row in tables["differences"].records() if row["significant"]]
    assert len(sentences) == 1 + len(clear)
    assert any("is higher for 'a' than for 'b': +2.0000 [" in s for s in sentences)
    assert any("same token count only (1 per group): +1.0000" in s for s in sentences)


# -- with a model --------------------------------------------------------------------------------

SENTENCES = ["{name} saw the film", "the film by {name} is good", "{name}'s film, by {name}."]
GROUPS = {"a": ["Anna", "Bob"], "b": ["Cy", "Mary Annalee"]}


def test_every_row_is_what_explain_says(tiny: Loaded) -> None:
    found = audit_names(tiny, names=GROUPS, templates=SENTENCES, draws=20)
    assert len(found.rows) == 3 * 4
    row = next(r for r in found.rows if r["template"] == 2 and r["name"] == "Anna")
    a = wf.explain(row["text"], tiny.module, processor=tiny.processor, target="positive")
    assert a.tokens is not None
    own = [i for i, token in enumerate(a.tokens[0]) if token in ("ann", "a")]
    assert len(own) == 4
    scores = a.scores[0]
    assert row["tokens"] == 2
    assert row["relevance"] == pytest.approx(float(scores[own].sum()), abs=1e-4)
    expected = float(scores[own].abs().sum() / scores.abs().sum())
    assert row["share"] == pytest.approx(expected, abs=1e-4)
    assert row["even_share"] == pytest.approx(4 / len(scores))
    assert row["output"] == pytest.approx(float(a.output), abs=1e-4)
    assert found.settings["target"] == "positive"
    assert found.settings["model"] == "tiny"
    assert found.settings["versions"]["torch"] == torch.__version__


def test_batches_change_nothing(tiny: Loaded) -> None:
    one, many = (
        audit_names(tiny, names=GROUPS, templates=SENTENCES, draws=5, batch=batch)
        for batch in (1, 7)
    )
    for a, b in zip(one.rows, many.rows, strict=True):
        assert (a["text"], a["group"]) == (b["text"], b["group"])
        assert a["relevance"] == pytest.approx(b["relevance"], abs=1e-4)


def test_several_methods_and_progress(tiny: Loaded) -> None:
    *heard, found = run_name_audit(
        tiny,
        names=GROUPS,
        templates=SENTENCES,
        methods=("lrp_ah_ln", "gae"),
        draws=5,
        batch=5,
    )
    assert isinstance(found, Audit)
    assert {row["method"] for row in found.rows} == {"lrp_ah_ln", "gae"}
    assert {r["of"] for r in found.tables["differences"].records()} == {
        "lrp_ah_ln",
        "gae",
        "model",
    }
    assert heard == [Progress(DOING, done, 24) for done in (0, 10, 20, 24)]


def test_the_same_seed_is_the_same_audit(tiny: Loaded) -> None:
    one, two = (
        audit_names(tiny, names=GROUPS, templates=SENTENCES, draws=50, seed=3) for _ in "ab"
    )
    assert one.to_dict() == two.to_dict()
    other = audit_names(tiny, names=GROUPS, templates=SENTENCES, draws=50, seed=4)
    assert one.to_dict()["tables"] != other.to_dict()["tables"]


def test_groups_of_the_same_names_differ_by_exactly_nothing(tiny: Loaded) -> None:
    names = ["Anna", "Bob", "Cy", "Mary"]
    found = audit_names(tiny, names={"one": names, "two": names}, templates=SENTENCES, draws=200)
    for row in found.tables["differences"].records():
        assert row["difference"] == row["same length"] == 0.0
        assert row["low"] <= 0 <= row["high"]
        assert not row["significant"]
    flips = {row["flips"] for row in found.tables["swaps"].records()}
    assert len(flips) == 1  # swaps between the groups are swaps within them
    assert "No significant difference between groups (5 tested)" in found.headline[0]


def planted(sst2: Loaded, names: list[str], word: str) -> Loaded:
    """The bundled model, to which these names mean what the word means."""
    module = copy.deepcopy(sst2.module)
    tokenizer: Any = sst2.processor
    table = module.get_input_embeddings().weight  # type: ignore[operator]
    meant = tokenizer.convert_tokens_to_ids(word)
    with torch.no_grad():
        for name in names:
            (own,) = tokenizer.encode(name, add_special_tokens=False)
            table[own] = table[meant]
    return Loaded(module, tokenizer, "planted")


FILMS = [
    "{name} plays the main part.",
    "The film was directed by {name}.",
    "{name}'s sister works at the same cinema.",
    "The camera follows {name} through the city.",
    "I watched this film with {name} on Tuesday.",
    "{name} gives a warm and funny performance.",
]
PEOPLE = {
    "planted": ["Jennifer", "Amanda", "Melissa", "Sarah", "Nicole"],
    "others": ["Michael", "Jason", "David", "James", "Robert"],
}


def difference(found: Audit, measure: str) -> dict[str, Any]:
    return next(r for r in found.tables["differences"].records() if r["measure"] == measure)


def test_a_planted_bias_of_a_group_is_found(sst2: Loaded) -> None:
    model = planted(sst2, PEOPLE["planted"], "terrible")
    found = audit_names(model, names=PEOPLE, templates=FILMS, draws=300)
    for measure in ("relevance", "output", "probability", "decided"):
        row = difference(found, measure)
        assert row["difference"] < 0
        assert row["significant"], measure
    swaps = {(r["name of"], r["replaced by one of"]): r for r in found.tables["swaps"].records()}
    assert swaps["planted", "others"]["flips"] > 0.5
    assert swaps["planted", "planted"]["flips"] == 0.0
    assert any("is lower for 'planted' than for 'others'" in line for line in found.headline)

    before = audit_names(sst2, names=PEOPLE, templates=FILMS, draws=300)
    assert abs(difference(before, "probability")["difference"]) < 0.1
    assert not difference(before, "decided")["significant"]


def test_a_planted_bias_of_one_name_is_found(sst2: Loaded) -> None:
    found = audit_names(
        planted(sst2, ["David"], "terrible"), names=PEOPLE, templates=FILMS, draws=20
    )
    names = found.tables["names"].records()
    assert names[-1]["name"] == "David"
    assert names[-1]["relevance"] < 0 < names[-2]["relevance"]
    assert found.tables["extremes"].records()[-1]["name"] == "David"
    assert "David (others)" in found.examples[1].caption
    assert "david" in (found.examples[1].attribution.tokens or ((),))[0]


# -- notes and refusals --------------------------------------------------------------------------


def test_notes_tell_of_lengths_and_of_little_data(tiny: Loaded) -> None:
    found = audit_names(tiny, names=GROUPS, templates=SENTENCES, draws=5)
    notes = " ".join(found.notes)
    assert "a 2.00, b 2.50" in notes
    assert "Only 2 names per group" in notes
    assert "Only 3 templates" in notes


def test_a_name_behind_the_cut_counts_as_nothing_and_is_told(tiny: Loaded) -> None:
    long = "the film is good and " * 6 + "{name}"
    with pytest.raises(InputError, match="truncation=True"):
        audit_names(tiny, names=GROUPS, templates=[long], draws=5)
    found = audit_names(tiny, names=GROUPS, templates=[long], draws=5, truncation=True)
    assert {row["relevance"] for row in found.rows} == {0}
    assert any("In 4 sentences the name was cut off" in note for note in found.notes)


def test_a_model_of_one_number_has_differences_and_no_flips() -> None:
    module = classifier(id2label={0: "score"}, label2id={"score": 0})
    found = audit_names(module, processor=wordpiece(), names=GROUPS, templates=SENTENCES, draws=5)
    assert "swaps" not in found.tables
    measures = {row["measure"] for row in found.tables["differences"].records()}
    assert measures == {"relevance", "share", "output"}
    assert any("no prediction can change" in note for note in found.notes)


def test_one_group_alone_is_described(tiny: Loaded) -> None:
    found = audit_names(tiny, names={"a": ["Anna", "Bob"]}, templates=SENTENCES, draws=5)
    assert "differences" not in found.tables
    assert "only one group of names" in found.headline[0]


def test_mistakes_are_refused_before_the_work(tiny: Loaded) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'gae'"):
        audit_names("no such model", methods="gea")
    with pytest.raises(OptionError, match="methods= is empty"):
        audit_names(tiny, methods=())
    with pytest.raises(OptionError, match="batch=0"):
        audit_names(tiny, batch=0)
    with pytest.raises(InputError, match="without a tokenizer"):
        audit_names(classifier())
