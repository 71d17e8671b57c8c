"""ERASER: Movies as it is published, and the other tasks' shapes."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

MOVIE = "What is the sentiment of this review?"


def span(docid: str, start: int, end: int, **more: int) -> dict[str, Any]:
    """A piece of evidence as the benchmark writes it."""
    return {"docid": docid, "start_token": start, "end_token": end, "text": "", **more}


def annotation(name: str, label: str, evidences: Any, **more: Any) -> str:
    """A line of an annotation file."""
    row = {"annotation_id": name, "classification": label, "evidences": evidences}
    return json.dumps({"query": MOVIE, "query_type": None, **row, **more}) + "\n"


def test_movies_have_tokens_and_spans(write: Write) -> None:
    lines = annotation("a.txt", "NEG", [[span("a.txt", 3, 5)], [span("a.txt", 0, 1)]])
    lines += annotation("b.txt", "POS", [], docids=None)
    docs = {"docs/a.txt": "dull  and\nlong , too long .\n", "docs/b.txt": "fine\xa0film"}
    found = open_dataset(f"eraser:{write({'val.jsonl': lines, **docs})}", "val")
    first, second = found
    assert (first.id, first.inputs) == ("val/a.txt", "dull and long , too long .")
    assert (first.label, first.label_name, second.label) == (0, "NEG", 1)
    assert first.extras["rationale"] == ((0, 1), (3, 5))
    tokens = first.inputs.split(" ")
    assert first.extras["tokens"] == tuple(tokens)
    assert [tokens[a:b] for a, b in first.extras["rationale"]] == [["dull"], [",", "too"]]
    # No evidence names a document: the annotation's id does. Only plain spaces separate tokens.
    assert second.extras["tokens"] == ("fine\xa0film",)
    assert second.extras["rationale"] == ()
    assert found.labels == ("NEG", "POS")


def test_a_question_makes_a_pair(write: Write) -> None:
    line = annotation("q1", "True", [[span("d", 1, 2)]], query="is it blue ?")
    path = write({"test.jsonl": line, "docs/d": "the sky"})
    (sample,) = open_dataset(f"eraser:{path}")
    assert (sample.inputs, sample.label) == (("is it blue ?", "the sky"), 1)
    assert sample.extras["query"] == "is it blue ?"
    (sample,) = open_dataset(f"eraser:{path}", query="no")
    assert sample.inputs == "the sky"


def test_two_documents_make_a_pair_with_the_premise_first(write: Write) -> None:
    docs = ["7_hypothesis", "7_premise"]
    evidence = [[span("7_hypothesis", 0, 1), span("7_premise", 1, 3)]]
    line = annotation("7", "neutral", evidence, query=None, docids=docs)
    texts = ("a man sleeps", "a man on a bed")
    stored = "".join(
        json.dumps({"docid": d, "document": t}) + "\n" for d, t in zip(docs, texts, strict=True)
    )
    (sample,) = open_dataset(f"eraser:{write({'test.jsonl': line, 'docs.jsonl': stored})}")
    assert sample.inputs == ("a man on a bed", "a man sleeps")
    assert sample.extras["documents"] == ("7_premise", "7_hypothesis")
    assert sample.extras["rationale"] == ((1, 3), (5, 6))  # through both documents
    assert sample.label_name == "neutral"


def test_evidence_may_be_whole_sentences(write: Write) -> None:
    evidence = [[span("d", -1, -1, start_sentence=1, end_sentence=3)]]
    path = write({"test.jsonl": annotation("d", "POS", evidence), "docs/d": "a b\nc d e\nf"})
    (sample,) = open_dataset(f"eraser:{path}")
    assert sample.extras["rationale"] == ((2, 6),)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{broken\n", "not JSON"),
        ("[1]\n", "a JSON list"),
        (annotation("d", "POS", [[span("d", 0, 99)]]), "token 0 to 99 of d. Expected a span"),
        (annotation("d", "POS", [[span("d", 2, 1)]]), "token 2 to 1"),
        (annotation("d", "POS", [[span("none", 0, 1)]]), "no document"),
        (annotation("d", "POS", [[span("../secret", 0, 1)]]), "is outside"),
        (annotation("d", "POS", [["d"]]), "'evidences' has another form"),
        (annotation("d", "POS", None), "'evidences' is a NoneType"),
        ('{"annotation_id": "d"}\n', "no 'classification'"),
        ('{"classification": "POS"}\n', "no 'annotation_id'"),
    ],
)
def test_a_malformed_annotation_is_told_by_its_line(write: Write, line: str, message: str) -> None:
    good = annotation("c", "NEG", [])
    docs = {"docs/d": "a b c", "docs/c": "a", "secret": "secret"}
    path = write({"test.jsonl": good + "\n" + line, **docs})
    with pytest.raises(RowError, match=rf"test\.jsonl, line 3: .*{message}"):
        list(open_dataset(f"eraser:{path}"))
    assert len(list(open_dataset(f"eraser:{path}", on_error="skip"))) == 1


def test_missing_documents_are_named(write: Write) -> None:
    with pytest.raises(InputError, match=r"has no docs and no docs\.jsonl"):
        open_dataset(f"eraser:{write({'test.jsonl': annotation('a', 'POS', [])})}")


@pytest.mark.data
@pytest.mark.parametrize(("split", "count"), [("train", 1600), ("val", 200), ("test", 199)])
def test_the_published_movies(data: Path, split: str, count: int) -> None:
    folder = data / "eraser-movies"
    samples = list(open_dataset(f"eraser:{folder}", split))
    assert len(samples) == count
    labels = Counter(s.label_name for s in samples)
    assert abs(labels["NEG"] - labels["POS"]) <= 1
    # Every span holds the words that the annotation quotes.
    lines = (folder / f"{split}.jsonl").read_text("utf-8").splitlines()
    for sample, line in zip(samples, lines, strict=True):
        quoted = {
            (e["start_token"], e["end_token"]): e["text"]
            for group in json.loads(line)["evidences"]
            for e in group
            if e["text"]
        }
        tokens = sample.inputs.split(" ")
        spans = sample.extras["rationale"]
        assert {(a, b): " ".join(tokens[a:b]) for a, b in spans} == quoted
