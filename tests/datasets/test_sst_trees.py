"""The tree bank, one bracketed tree per line."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import OptionError

TREES = (
    "(3 (2 It) (4 (4 works) (2 -LRB-)))\n(2 (2 no) (2 opinion))\n\n(0 (1 awful) (2 8\xa01\\/2))\r\n"
)


def test_neutral_sentences_are_left_out_of_two_classes(write: Write) -> None:
    found = open_dataset(f"sst_trees:{write({'dev.txt': TREES})}")
    samples = list(found)
    assert [(s.id, s.inputs, s.label, s.label_name) for s in samples] == [
        ("dev/0", "It works (", 1, "positive"),
        ("dev/2", "awful 8\xa01/2", 0, "negative"),
    ]
    assert samples[0].extras == {"tokens": ("It", "works", "("), "sentiment": 3}
    assert len(found) == 2


def test_all_five_classes_can_be_asked_for(write: Write) -> None:
    path = write({"dev.txt": TREES})
    found = open_dataset(f"sst_trees:{path}", classes="5")
    assert [s.label for s in found] == [3, 2, 0]
    assert found.labels[0] == "very negative"
    with pytest.raises(OptionError, match="It can be: 2, 5"):
        open_dataset(f"sst_trees:{path}", classes="3")


def test_train_without_dev_goes_first(write: Write) -> None:
    path = write({"train.txt": TREES, "train_without_dev.txt": "(4 good)\n"})
    assert [s.inputs for s in open_dataset(f"sst_trees:{path}", "train")] == ["good"]


@pytest.mark.parametrize(
    "tree",
    [
        "(3 (2 It) (4 works)",
        "(3 (2 It) (4 works)))",
        "(9 (2 It))",
        "(3)",
        "()",
        "(3 (2 It) works)",
        "(3 a) (3 b)",
        "plain text",
        "(3 a b)",
        "(3 a (2 b))",
    ],
)
def test_a_malformed_tree_is_told_by_its_line(write: Write, tree: str) -> None:
    path = write({"dev.txt": f"(4 good)\n{tree}\n(0 bad)\n"})
    with pytest.raises(RowError, match=r"dev\.txt, line 2: .* Expected a tree"):
        list(open_dataset(f"sst_trees:{path}"))
    assert len(list(open_dataset(f"sst_trees:{path}", on_error="skip"))) == 2


@pytest.mark.data
@pytest.mark.parametrize(("split", "two", "five"), [("dev", 872, 1101), ("test", 1821, 2210)])
def test_the_published_counts(data: Path, split: str, two: int, five: int) -> None:
    path = f"sst_trees:{data}/sst-trees"
    assert len(list(open_dataset(path, split))) == two
    assert len(list(open_dataset(path, split, classes="5"))) == five


@pytest.mark.data
def test_the_trees_say_what_sst2_says(data: Path) -> None:
    trees = list(open_dataset(f"sst_trees:{data}/sst-trees", "train"))
    assert Counter(s.label for s in trees) == {1: 3610, 0: 3310}
    flat = {(s.label, len(s.inputs.split())) for s in open_dataset(f"sst2:{data}/sst2", "dev")}
    dev = {(s.label, len(s.inputs.split(" "))) for s in open_dataset(f"sst_trees:{data}/sst-trees")}
    assert len(dev & flat) > 0.9 * len(dev)
