"""ImageNet by class folders and by index."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

Picture = Callable[..., Path]
INDEX = "file,imagenet_index,wnid,name\n"


def test_folders_of_some_classes_are_not_counted(picture: Picture, tmp_path: Path) -> None:
    for name in ("val/n02123045/b.JPEG", "val/n02123045/a.JPEG", "val/n01440764/c.JPEG"):
        picture(name)
    found = open_dataset(f"imagenet:{tmp_path}")
    assert [(s.id, s.label) for s in found] == [
        ("val/n01440764/c", "n01440764"),
        ("val/n02123045/a", "n02123045"),
        ("val/n02123045/b", "n02123045"),
    ]
    assert len(found) == 3


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "imagenet_class_index.json",
            json.dumps({"281": ["n02123045", "tabby"], "0": ["n01440764", "tench"]}),
        ),
        ("LOC_synset_mapping.txt", "n01440764 tench, Tinca tinca\nn02123045 tabby, tabby cat\n"),
    ],
)
def test_a_file_beside_the_folders_numbers_them(
    picture: Picture, write: Write, name: str, content: str
) -> None:
    file = picture("train/n02123045/a.JPEG")
    (sample,) = open_dataset(f"imagenet:{write({name: content})}", "train")
    assert sample.inputs == file
    assert sample.label == (281 if name.endswith("json") else 1)
    assert sample.label_name == "tabby"


def test_a_thousand_folders_are_numbered_in_order(tmp_path: Path, picture: Picture) -> None:
    for i in range(1000):
        (tmp_path / f"n{i:08}").mkdir()
    picture("n00000007/a.png")
    (sample,) = open_dataset(f"imagenet:{tmp_path}")
    assert sample.label == 7


def test_an_index_names_the_images(write: Write, picture: Picture) -> None:
    file = picture("images/x.JPEG")
    path = write({"index.csv": INDEX + "x.JPEG,281,n02123045,tabby\n"})
    for source in (path, path / "index.csv"):
        (sample,) = open_dataset(f"imagenet:{source}")
        assert (sample.id, sample.inputs, sample.label) == ("val/0", file, 281)
        assert (sample.label_name, sample.extras) == ("tabby", {"wnid": "n02123045"})


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("y.JPEG,1,n0,a", "no image"),
        ("../index.csv,1,n0,a", "is outside"),
        ("x.JPEG,1000,n0,a", "Expected 0 to 999"),
        ("x.JPEG,one,n0,a", "Expected 0 to 999"),
        ("x.JPEG,1", "2 cells"),
    ],
)
def test_a_malformed_row_is_told_by_its_line(
    write: Write, picture: Picture, row: str, message: str
) -> None:
    picture("images/x.JPEG")
    path = write({"index.csv": f"{INDEX}x.JPEG,1,n0,a\n{row}\n"})
    with pytest.raises(RowError, match=rf"index\.csv, line 3: .*{message}"):
        list(open_dataset(f"imagenet:{path}"))
    assert len(list(open_dataset(f"imagenet:{path}", on_error="skip"))) == 1


def test_an_image_that_cannot_be_decoded_is_left_out_where_rows_may_be(
    write: Write, picture: Picture
) -> None:
    """A truncated file, or one that is not an image: otherwise found only when it is explained."""
    parse_whole, cut = picture("images/x.JPEG"), picture("images/y.JPEG")
    cut.write_bytes(parse_whole.read_bytes()[:-40])
    rows = "x.JPEG,1,n0,a\ny.JPEG,1,n0,a\nz.JPEG,1,n0,a\n"
    path = write({"index.csv": INDEX + rows, "images/z.JPEG": "no image"})
    assert len(list(open_dataset(f"imagenet:{path}"))) == 3
    found = open_dataset(f"imagenet:{path}", on_error="skip")
    assert [sample.inputs for sample in found] == [parse_whole]
    assert [error.line for error in found.report.skipped] == [3, 4]
    assert "cannot be decoded" in str(found.report)


def test_what_is_missing_or_different_is_named(tmp_path: Path, picture: Picture) -> None:
    with pytest.raises(InputError, match="has no val/CLASS"):
        open_dataset(f"imagenet:{tmp_path}")
    picture("train/cats/a.jpg")
    with pytest.raises(InputError, match="has no val/CLASS"):
        open_dataset(f"imagenet:{tmp_path}", "val")
    with pytest.raises(InputError, match="image_folder:"):
        open_dataset(f"imagenet:{tmp_path}", "train")


@pytest.mark.data
def test_the_published_images(data: Path) -> None:
    samples = list(open_dataset(f"imagenet:{data}/imagenet-val"))
    assert [s.label for s in samples] == list(range(0, 1000, 2))
    assert samples[0].label_name == "tench"
    with Image.open(samples[-1].inputs) as image:
        assert min(image.size) == 256
