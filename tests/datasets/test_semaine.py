"""SEMAINE-style transcripts."""

from __future__ import annotations

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError, OptionError


def test_named_sentiment(write: Write) -> None:
    path = write({"s.csv": "Session,Speaker,Text,Label\n3,User,I am glad,Positive\n"}) / "s.csv"
    (sample,) = open_dataset(f"semaine:{path}")
    assert (sample.inputs, sample.label, sample.label_name) == ("I am glad", 2, "positive")
    assert sample.extras == {"session": "3", "speaker": "User"}


def test_rated_valence(write: Write) -> None:
    rows = "transcript,valence\ngreat,0.6\nwell,-0.05\nawful,-0.2\n"
    path = write({"train.csv": rows})
    assert [s.label for s in open_dataset(f"semaine:{path}", "train")] == [2, 1, 0]
    assert [s.label for s in open_dataset(f"semaine:{path}", "train", neutral="0.5")] == [2, 1, 1]
    with pytest.raises(OptionError, match="neutral is 'x'"):
        open_dataset(f"semaine:{path}", "train", neutral="x")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("text,valence", "fine,7"),
        ("text,valence", "fine,nan"),
        ("text,valence", "fine,high"),
        ("text,label", "fine,good"),
        ("text,label", ",positive"),
    ],
)
def test_a_malformed_row_is_told_by_its_line(write: Write, header: str, row: str) -> None:
    path = write({"test.csv": f"{header}\n{row}\n"})
    with pytest.raises(RowError, match=r"test\.csv, line 2"):
        list(open_dataset(f"semaine:{path}"))


def test_the_columns_are_said(write: Write) -> None:
    path = write({"test.csv": "text,mood\nfine,1\n"})
    with pytest.raises(InputError, match="no column 'label' or 'sentiment' or 'valence'"):
        open_dataset(f"semaine:{path}")
