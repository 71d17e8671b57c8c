"""SST-2 as GLUE writes it, and as others do."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

EXPECTED = [
    ("dev/0", "it 's fine .", 1, "positive"),
    ("dev/1", 'so-called " art "', 0, "negative"),
]


@pytest.mark.parametrize(
    "content",
    [
        'sentence\tlabel\nit \'s fine . \t1\nso-called " art "\t0\n',
        'label\tcontent\n1\tit \'s fine .\n0\tso-called " art "\n',
        'it \'s fine .\t1\nso-called " art "\t0',
        '1\tit \'s fine .\n\n0\tso-called " art "\n\n',
        '\ufefflabel\tsentence\r\n1\tit \'s fine .\r\n0\tso-called " art "\r\n',
    ],
    ids=["glue", "label first", "no header", "label first, no header", "bom, crlf"],
)
def test_either_column_may_be_first(write: Write, content: str) -> None:
    found = open_dataset(f"sst2:{write({'dev.tsv': content})}", split="validation")
    assert [(s.id, s.inputs, s.label, s.label_name) for s in found] == EXPECTED
    assert len(found) == 2
    assert found.labels == ("negative", "positive")


def test_the_test_file_of_glue_has_no_labels(write: Write) -> None:
    path = write({"test.tsv": "index\tsentence\n0\tuneasy mishmash\n"})
    (sample,) = open_dataset(f"sst2:{path}/test.tsv")
    assert (sample.id, sample.inputs, sample.label) == ("test/0", "uneasy mishmash", None)


def test_hidden_labels_are_none(write: Write) -> None:
    path = write({"test.tsv": "sentence\tlabel\nuneasy mishmash\t-1\n"})
    (sample,) = open_dataset(f"sst2:{path}", "test")
    assert sample.label is None


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"2\tfine", "the label is '2'. Expected 0"),
        (b"1\tfine\tvery", "3 cells. Expected 2"),
        (b"1\t ", "the sentence is empty"),
        (b"1\tcaf\xe9", "the byte 0xe9 is not UTF-8"),
    ],
)
def test_a_malformed_row_is_told_by_its_line(write: Write, row: bytes, message: str) -> None:
    path = write({"dev.tsv": b"label\tsentence\n1\tgood\n\n" + row + b"\n0\tbad\n"})
    with pytest.raises(RowError, match=rf"dev\.tsv, line 4: {message}"):
        list(open_dataset(f"sst2:{path}"))
    assert len(list(open_dataset(f"sst2:{path}", on_error="skip"))) == 2


def test_another_encoding_can_be_named(write: Write) -> None:
    path = write({"dev.tsv": b"1\tcaf\xe9\n"})
    (sample,) = open_dataset(f"sst2:{path}", encoding="latin-1")
    assert sample.inputs == "café"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"a\tb\nc\td\n", "no column of labels"),
        ("1\tfine\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_a_file_of_something_else_is_refused(write: Write, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(f"sst2:{write({'dev.tsv': content})}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no train\.tsv\. The layout of sst2 is"):
        open_dataset(f"sst2:{tmp_path}", split="train")


@pytest.mark.data
@pytest.mark.parametrize(
    ("split", "negative", "positive"),
    [("train", 29_780, 37_569), ("dev", 428, 444), ("test", 912, 909)],
)
def test_the_published_counts(data: Path, split: str, negative: int, positive: int) -> None:
    found = open_dataset(f"sst2:{data}/sst2", split)
    counts = Counter(s.label_name for s in found)
    assert counts == {"negative": negative, "positive": positive}
    assert len(found) == negative + positive


@pytest.mark.data
def test_the_published_sentences(data: Path) -> None:
    (first,) = open_dataset(f"sst2:{data}/sst2", limit=1)
    assert (first.id, first.inputs) == ("dev/0", "one long string of cliches .")
