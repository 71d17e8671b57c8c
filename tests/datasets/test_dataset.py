"""What all readers share: ids, limits, seeds, skipped rows, and how a dataset is named."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import Contents, Dataset, RowError, datasets, open_dataset
from whyformer.errors import InputError, OptionError, UnknownNameError

ROWS = "text,label\n" + "".join(f"sentence {i},{i % 2}\n" for i in range(50))


@pytest.mark.parametrize("name", datasets)
def test_a_format_says_what_it_is(name: str) -> None:
    known = datasets[name]
    assert known.name == name
    assert known.title
    assert known.layout
    assert known.task
    assert known.splits
    assert known.read.__doc__


def test_the_formats_of_the_papers_are_there() -> None:
    papers = {"imagenet", "imagenet_segmentation", "eraser", "sst2", "sst_trees", "imdb", "vqa"}
    others = {"tweeteval", "meld", "semaine", "bace", "mnist", "coco", "pets"}
    own = {"csv", "jsonl", "parquet", "image_folder", "image_masks"}
    assert set(datasets) >= papers | others | own


def test_a_limit_takes_the_first_rows(write: Write) -> None:
    found = open_dataset(f"csv:{write({'a.csv': ROWS})}/a.csv", limit=3)
    assert [s.id for s in found] == ["all/0", "all/1", "all/2"] == found.ids()
    assert len(found) == 3
    assert len(open_dataset(f"csv:{write({})}/a.csv", limit=99)) == 50


def test_a_seed_draws_rows_that_a_larger_limit_keeps(write: Write) -> None:
    path = write({"a.csv": ROWS}) / "a.csv"
    small, large = (open_dataset(f"csv:{path}", limit=n, seed=1).ids() for n in (10, 20))
    assert len(small) == 10
    assert set(small) < set(large)
    assert small == sorted(small, key=lambda at: int(at.removeprefix("all/")))
    assert small != open_dataset(f"csv:{path}", limit=10, seed=2).ids()
    assert small == open_dataset(f"csv:{path}", limit=10, seed=1).ids()
    assert [s.id for s in open_dataset(f"csv:{path}", limit=10, seed=1)] == small


def test_samples_can_be_asked_for_by_id(write: Write) -> None:
    found = open_dataset(f"csv:{write({'a.csv': ROWS})}/a.csv", limit=10)
    few = found.subset(["all/7", "all/2"])
    assert [s.id for s in few] == ["all/2", "all/7"]
    assert len(few) == 2
    with pytest.raises(InputError, match="no sample all/10"):
        found.subset(["all/10", "all/2"])


def test_a_seed_draws_all_rows_alike(write: Write) -> None:
    path = write({"a.csv": ROWS}) / "a.csv"
    drawn: Counter[str] = Counter()
    for seed in range(100):
        drawn.update(open_dataset(f"csv:{path}", limit=10, seed=seed).ids())
    assert len(drawn) == 50
    assert max(drawn.values()) < 40  # 20 expected, 4 the deviation


def test_a_malformed_row_stops_unless_it_may_be_skipped(write: Write) -> None:
    path = write({"a.csv": "text,label\na good film,1\nlonely\n,0\na bad film,0\n"}) / "a.csv"
    with pytest.raises(RowError, match=r"a\.csv, line 3: 1 cells\. Expected 2: text, label"):
        list(open_dataset(f"csv:{path}"))
    found = open_dataset(f"csv:{path}", on_error="skip")
    assert [s.id for s in found] == ["all/0", "all/3"]
    assert found.report.read == 2
    assert [error.line for error in found.report.skipped] == [3, 4]
    assert "2 samples read, 2 rows skipped" in str(found.report)
    assert len(found) == 4
    assert len(list(found)) == 2
    assert len(found.report.skipped) == 2  # of this pass alone


def test_an_error_survives_the_way_between_processes(write: Write) -> None:
    path = write({"a.csv": "text,label\nlonely\n"}) / "a.csv"
    with pytest.raises(RowError) as caught:
        list(open_dataset(f"csv:{path}"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.file, again.line) == (str(caught.value), path, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit is 0"),
        ({"on_error": "ignore"}, "'raise' or 'skip'"),
        ({"split": "tset"}, "Did you mean 'test'"),
        ({"txet": "a"}, "no option 'txet'. Did you mean 'text'"),
    ],
)
def test_a_wrong_option_is_named(write: Write, options: dict[str, object], message: str) -> None:
    path = write({"a.csv": ROWS}) / "a.csv"
    with pytest.raises(OptionError, match=message):
        open_dataset(f"csv:{path}", **options)  # type: ignore[arg-type]


def test_options_may_stand_behind_the_path(write: Write) -> None:
    folder = write({"a,x=1.csv": "review,y,other\nfine,1,x\n"})
    found = open_dataset(f"csv:{folder}/a,x=1.csv,text=review,label=y,labels=bad|good")
    assert [(s.inputs, s.label, s.label_name) for s in found] == [("fine", 1, "good")]


@pytest.mark.parametrize("source", ["sst2", ":x", "sst2:", ""])
def test_a_name_and_a_path_are_needed(source: str) -> None:
    with pytest.raises(InputError, match="NAME:PATH"):
        open_dataset(source)


def test_an_unknown_name_or_path_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'sst2'"):
        open_dataset(f"sst3:{tmp_path}")
    with pytest.raises(InputError, match=r"no file or folder .*nowhere.* layout of sst2 is: train"):
        open_dataset(f"sst2:{tmp_path}/nowhere")
    with pytest.raises(InputError, match="expected a dataset, got int"):
        open_dataset(3)


def test_an_id_stands_for_one_sample(write: Write) -> None:
    one = open_dataset(f"csv:{write({'a.csv': ROWS})}/a.csv", limit=1)
    row = next(one._rows())
    with pytest.raises(RowError, match="occurs twice"):
        list(Dataset("twice", Contents(lambda: iter([row, row]))))
