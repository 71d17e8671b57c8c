"""Objects of the library `datasets`, real ones if it is installed, else substitutes."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError, OptionError

ROWS = [{"text": "good", "label": 1}, {"text": "bad", "label": 0}, {"text": "", "label": 0}]


class Listed:
    """As much of `datasets.Dataset` as is needed, counting what was decoded."""

    column_names = ("text", "label")
    features = {"text": None, "label": SimpleNamespace(names=["negative", "positive"])}  # noqa: RUF012
    split = "validation"

    def __init__(self) -> None:
        self.decoded: list[int] = []

    def __len__(self) -> int:
        return len(ROWS)

    def __getitem__(self, number: int) -> dict[str, Any]:
        self.decoded.append(number)
        return ROWS[number]


class Streamed:
    """As much of `datasets.IterableDataset` as is needed."""

    column_names = None
    features = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(ROWS)


class Splits(dict[str, Any]):
    """As much of `datasets.DatasetDict` as is needed."""


for look_alike in (Listed, Streamed, Splits):
    look_alike.__module__ = "datasets.made_up"


def test_rows_are_read_by_number() -> None:
    source = Listed()
    found = open_dataset(source, limit=2)
    assert len(found) == 2
    assert [(s.id, s.inputs, s.label, s.label_name) for s in found] == [
        ("validation/0", "good", 1, "positive"),
        ("validation/1", "bad", 0, "negative"),
    ]
    assert source.decoded == [0, 1]
    assert found.labels == ("negative", "positive")


def test_a_malformed_row_is_told_by_its_number() -> None:
    with pytest.raises(RowError, match="row 2: 'text' is empty"):
        list(open_dataset(Listed()))
    assert len(list(open_dataset(Listed(), on_error="skip"))) == 2


def test_streams_and_splits() -> None:
    assert [s.id for s in open_dataset(Streamed(), limit=2)] == ["all/0", "all/1"]
    splits = Splits(train=Listed(), test=Streamed())
    assert [s.id for s in open_dataset(splits, "test", limit=1)] == ["test/0"]
    with pytest.raises(InputError, match=r"there is no split None\. This object has: train, test"):
        open_dataset(splits)


def test_columns_can_be_named() -> None:
    with pytest.raises(InputError, match="no column 'review'"):
        open_dataset(Listed(), text="review")
    with pytest.raises(OptionError, match="no option 'encoding'"):
        open_dataset(Listed(), encoding="utf-8")


def test_the_library_itself() -> None:
    library = pytest.importorskip("datasets", reason="the library datasets is not installed")
    names = library.ClassLabel(names=["negative", "positive"])
    features = library.Features({"text": library.Value("string"), "label": names})
    made = library.Dataset.from_list(ROWS[:2], features=features)
    both = library.DatasetDict({"train": made, "test": made.select([1])})
    (sample,) = open_dataset(both, "test")
    assert (sample.id, sample.inputs, sample.label_name) == ("test/0", "bad", "negative")
    assert [s.label for s in open_dataset(made.to_iterable_dataset())] == [1, 0]
