"""CSV and TSV files of the user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError, OptionError

Picture = Callable[..., Path]


def test_the_usual_columns_are_found(write: Write) -> None:
    rows = '\ufeffLabel,TEXT\r\n1,"two\r\nlines, ""quoted"""\r\n\r\nmaybe,plain\r\n,none\r\n'
    samples = list(open_dataset(f"csv:{write({'a.csv': rows})}/a.csv"))
    assert [(s.id, s.inputs, s.label, s.label_name) for s in samples] == [
        ("all/0", 'two\r\nlines, "quoted"', 1, None),
        ("all/1", "plain", "maybe", "maybe"),
        ("all/2", "none", None, None),
    ]


def test_labels_can_be_named(write: Write) -> None:
    path = write({"a.csv": "text,label\na,1.0\nb,bad\nc,7\n"}) / "a.csv"
    found = open_dataset(f"csv:{path}", labels="bad|good")
    assert [(s.label, s.label_name) for s in found] == [(1, "good"), (0, "bad"), (7, None)]
    assert found.labels == ("bad", "good")


def test_pairs_images_and_both(write: Write, picture: Picture) -> None:
    image = picture("pictures/a.png")
    path = write({"a.csv": "sentence1,sentence2,pic\none,two,pictures/a.png\n"}) / "a.csv"
    (sample,) = open_dataset(f"csv:{path}")
    assert sample.inputs == ("one", "two")
    (sample,) = open_dataset(f"csv:{path}", image="pic")
    assert sample.inputs == {"text": ("one", "two"), "image": image}
    path = write({"b.csv": "image,label\npictures/a.png,cat\n"}) / "b.csv"
    (sample,) = open_dataset(f"csv:{path}")
    assert (sample.inputs, sample.label) == (image, "cat")


def test_a_folder_has_splits_and_tabs_part_a_tsv(write: Write) -> None:
    path = write({"test.tsv": "text\tlabel\na,b\t1\n", "train.csv": "text;label\nc;0\n"})
    (sample,) = open_dataset(f"csv:{path}", "test")
    assert (sample.id, sample.inputs) == ("test/0", "a,b")
    (sample,) = open_dataset(f"csv:{path}/train.csv", delimiter=";")
    assert (sample.id, sample.inputs) == ("train/0", "c")


@pytest.mark.parametrize(
    ("row", "line", "message"),
    [
        (b"caf\xe9,1\n", 3, "byte 0xe9 is not UTF-8"),
        (b'"a"b,1\n', 3, "Expected a row of CSV"),
        (b",1\n", 3, "'text' is empty"),
        (b"a,1,2\n", 3, "3 cells. Expected 2: text, label"),
        (b"\n\n", None, ""),
    ],
)
def test_a_malformed_row_is_told_by_its_line(
    write: Write, row: bytes, line: int | None, message: str
) -> None:
    path = write({"a.csv": b"text,label\ngood,1\n" + row + b"bad,0\n"}) / "a.csv"
    if line:
        with pytest.raises(RowError, match=rf"a\.csv, line {line}: .*{message}") as caught:
            list(open_dataset(f"csv:{path}"))
        assert caught.value.line == line
    found = open_dataset(f"csv:{path}", on_error="skip")
    assert [s.inputs for s in found] == ["good", "bad"]


def test_a_quote_that_is_never_closed_swallows_nothing_unnoticed(write: Write) -> None:
    path = write({"a.csv": 'text,label\ngood,1\n"open,1\nbad,0\n'}) / "a.csv"
    with pytest.raises(RowError, match=r"line 3: unexpected end of data \(read up to line 4\)"):
        list(open_dataset(f"csv:{path}"))


def test_a_missing_image_is_told_by_its_line(write: Write) -> None:
    path = write({"a.csv": "image\nnowhere.png\n"}) / "a.csv"
    with pytest.raises(RowError, match=r"line 2: there is no image"):
        list(open_dataset(f"csv:{path}"))


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", {}, "is empty"),
        ("a,b\n1,2\n", {}, "no column that is called text or image. The columns are: a, b"),
        ("text,b\n1,2\n", {"label": "c"}, "no column 'c'"),
        ("text,text\n1,2\n", {}, "two columns have the same name"),
        (b"\xff\xfet\x00", {}, "UTF-16"),
    ],
)
def test_a_table_of_something_else_is_refused(
    write: Write, content: str | bytes, options: dict[str, str], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        open_dataset(f"csv:{write({'a.csv': content})}/a.csv", **options)


def test_other_encodings(write: Write) -> None:
    path = write({"a.csv": "text\ncafé\n".encode("utf-16")}) / "a.csv"
    (sample,) = open_dataset(f"csv:{path}", encoding="utf-16")
    assert sample.inputs == "café"
    with pytest.raises(OptionError, match="no encoding 'klingon'"):
        open_dataset(f"csv:{path}", encoding="klingon")
