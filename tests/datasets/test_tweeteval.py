"""TweetEval's text files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

FILES: dict[str, str | bytes] = {
    "mapping.txt": "0\tanger\n1\tjoy",
    "val_text.txt": "@user why? \u2028 \n\nso “happy” \n",
    "val_labels.txt": "0\n0\n1\n",
}


def test_a_line_is_a_tweet_even_when_it_is_empty(write: Write) -> None:
    found = open_dataset(f"tweeteval:{write(FILES)}")
    assert [(s.id, s.inputs, s.label, s.label_name) for s in found] == [
        ("val/0", "@user why?", 0, "anger"),
        ("val/1", "", 0, "anger"),
        ("val/2", "so “happy”", 1, "joy"),
    ]
    assert found.labels == ("anger", "joy")


def test_a_task_can_be_named(write: Write) -> None:
    path = write({f"emotion/{name}": content for name, content in FILES.items()})
    assert len(open_dataset(f"tweeteval:{path}", subset="emotion")) == 3
    with pytest.raises(InputError, match=r"several tasks\. Add one of them to the path: emotion"):
        open_dataset(f"tweeteval:{path}")


@pytest.mark.parametrize("label", ["2", "x", "", "-1"])
def test_a_wrong_label_is_told_by_its_line(write: Write, label: str) -> None:
    path = write({**FILES, "val_labels.txt": f"0\n{label}\n1\n"})
    with pytest.raises(RowError, match=rf"val_labels\.txt, line 2: the label is '{label}'"):
        list(open_dataset(f"tweeteval:{path}"))
    assert len(list(open_dataset(f"tweeteval:{path}", on_error="skip"))) == 2


@pytest.mark.parametrize(
    ("labels", "message"),
    [("0\n0\n", "val_text.txt, line 3"), ("0\n" * 4, "val_labels.txt, line 4")],
)
def test_files_of_different_length_are_told(write: Write, labels: str, message: str) -> None:
    path = write({**FILES, "val_labels.txt": labels})
    with pytest.raises(RowError, match=message):
        list(open_dataset(f"tweeteval:{path}"))


def test_what_is_missing_or_broken_is_named(write: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no mapping\.txt"):
        open_dataset(f"tweeteval:{tmp_path}")
    with pytest.raises(InputError, match=r"has no train_text\.txt"):
        open_dataset(f"tweeteval:{write(FILES)}", "train")
    with pytest.raises(InputError, match=r"mapping\.txt, line 1: expected 0, a tab"):
        open_dataset(f"tweeteval:{write({'mapping.txt': 'anger'})}")


@pytest.mark.data
@pytest.mark.parametrize(
    ("task", "split", "count"),
    [
        ("emotion", "train", 3257),
        ("emotion", "val", 374),
        ("emotion", "test", 1421),
        ("hate", "train", 9000),
        ("hate", "val", 1000),
        ("hate", "test", 2970),
        ("sentiment", "val", 2000),
        ("sentiment", "test", 12_284),
    ],
)
def test_the_published_counts(data: Path, task: str, split: str, count: int) -> None:
    found = open_dataset(f"tweeteval:{data}/tweeteval/{task}", split)
    labels = Counter(s.label_name for s in found)
    assert sum(labels.values()) == len(found) == count
    assert set(labels) == set(found.labels)
    assert min(labels.values()) > 0.05 * count
