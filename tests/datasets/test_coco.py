"""COCO instances."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.errors import InputError

Picture = Callable[..., Path]
NAME = "annotations/instances_val2017.json"
BOX: dict[str, Any] = {"id": 1, "image_id": 9, "category_id": 18, "bbox": [1, 0, 2, 2.5]}


def stored(*annotations: Any, **more: Any) -> dict[str, str | bytes]:
    """An annotation file with one image of 4 x 3."""
    image = {"id": 9, "file_name": "000000000009.jpg", "height": 3, "width": 4}
    parse_whole = {
        "images": [image],
        "annotations": list(annotations),
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
        **more,
    }
    return {NAME: json.dumps(parse_whole)}


@pytest.fixture
def image(picture: Picture) -> Path:
    """The path of the one image."""
    return picture("val2017/000000000009.jpg")


def test_boxes_and_names(write: Write, image: Path) -> None:
    other = {**BOX, "category_id": 1, "iscrowd": 1}
    found = open_dataset(f"coco:{write(stored(BOX, other))}", "val")
    (sample,) = found
    assert (sample.id, sample.inputs) == ("val2017/9", image)
    dog, person = sample.extras["objects"]
    assert (dog.name, dog.category, dog.box, dog.crowd) == ("dog", 18, (1, 0, 3, 2.5), False)
    assert person.crowd
    assert dog.mask().shape == (3, 4)
    assert found.labels == ("person", "dog")
    assert len(found) == 1


def test_an_image_may_show_nothing(write: Write, image: Path) -> None:
    (sample,) = open_dataset(f"coco:{write(stored())}")
    assert sample.extras["objects"] == ()


# Columns first: 2 zeros, 3 ones, 7 zeros. The compressed text is what pycocotools writes for it:
# one character per number, 48 and up.
@pytest.mark.parametrize("counts", [[2, 3, 7], "237"])
def test_run_lengths(write: Write, image: Path, counts: Any) -> None:
    runs = {**BOX, "segmentation": {"counts": counts, "size": [3, 4]}}
    (sample,) = open_dataset(f"coco:{write(stored(runs))}")
    expected = [[0, 1, 0, 0], [0, 1, 0, 0], [1, 0, 0, 0]]
    assert sample.extras["objects"][0].mask().tolist() == expected


def packed(runs: list[int]) -> str:
    """COCO's compressed text of run lengths, written from its description."""
    text = ""
    for i, run in enumerate(runs):
        value = run - runs[i - 2] if i > 2 else run
        more = True
        while more:
            bits = value & 0x1F
            value >>= 5
            more = value != (-1 if bits & 0x10 else 0)
            text += chr((bits | 0x20 if more else bits) + 48)
    return text


def test_long_run_lengths_come_back(write: Write, picture: Picture) -> None:
    picture("val2017/000000000009.jpg")
    height, width = 60, 90
    mask = numpy.zeros((height, width), numpy.uint8)
    mask[5:50, 3:40] = 1
    mask[0, 80] = 1
    flat = numpy.concatenate([[0], mask.ravel(order="F"), [2]])
    edges = numpy.flatnonzero(numpy.diff(flat))
    runs = numpy.diff(numpy.concatenate([[0], edges])).tolist()
    image = {"id": 9, "file_name": "000000000009.jpg", "height": height, "width": width}
    outline = {"counts": packed(runs), "size": [height, width]}
    (sample,) = open_dataset(
        f"coco:{write(stored({**BOX, 'segmentation': outline}, images=[image]))}"
    )
    assert numpy.array_equal(sample.extras["objects"][0].mask(), mask)


def test_polygons(write: Write, image: Path) -> None:
    outline = {**BOX, "segmentation": [[0, 0, 1, 0, 1, 2, 0, 2]]}
    (sample,) = open_dataset(f"coco:{write(stored(outline))}")
    assert sample.extras["objects"][0].mask().tolist() == [[1, 1, 0, 0]] * 3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"category_id": 5}, "category 5 is not listed"),
        ({"bbox": [1, 2, 3]}, "bbox is"),
        ({"bbox": [1, 2, -3, 4]}, "bbox is"),
        ({"bbox": None}, "'bbox' is a NoneType"),
        ({"segmentation": [[1, 2]]}, "not a polygon"),
        ({"segmentation": {"counts": [12], "size": [4, 4]}}, "another size"),
    ],
)
def test_a_malformed_annotation_is_told(
    write: Write, image: Path, change: dict[str, Any], message: str
) -> None:
    path = write(stored({**BOX, **change}))
    with pytest.raises(RowError, match=rf"instances_val2017\.json, annotations\[0\]: .*{message}"):
        list(open_dataset(f"coco:{path}"))
    assert list(open_dataset(f"coco:{path}", on_error="skip")) == []


def test_run_lengths_of_too_few_pixels(write: Write, image: Path) -> None:
    runs = {**BOX, "segmentation": {"counts": [2, 3], "size": [3, 4]}}
    (sample,) = open_dataset(f"coco:{write(stored(runs))}")
    with pytest.raises(InputError, match="5 pixels for a mask of 3 x 4"):
        sample.extras["objects"][0].mask()


def test_what_is_missing_or_broken_is_named(write: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no annotations/instances_val2017\.json"):
        open_dataset(f"coco:{tmp_path}")
    with pytest.raises(RowError, match=r"images\[0\]: there is no image"):
        list(open_dataset(f"coco:{write(stored(BOX))}"))
    broken = write({NAME: '{"images": '})
    with pytest.raises(InputError, match="line 1, column 12: this is not JSON"):
        open_dataset(f"coco:{broken}")
    with pytest.raises(InputError, match="no 'images'"):
        open_dataset(f"coco:{write({NAME: '{}'})}")
