"""VQA v2: questions, answers, and features of regions."""

from __future__ import annotations

import base64
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
QUESTIONS = "v2_OpenEnded_mscoco_val2014_questions.json"
ANSWERS = "v2_mscoco_val2014_annotations.json"
QUESTION = {"image_id": 42, "question": "Is it a dog?", "question_id": 42000}
ANSWER = {
    "question_id": 42000,
    "image_id": 42,
    "question_type": "is it a",
    "answer_type": "yes/no",
    "multiple_choice_answer": "yes",
    "answers": [
        {"answer": "yes" if i else "no", "answer_confidence": "yes", "answer_id": i + 1}
        for i in range(10)
    ],
}
FEATURES = numpy.arange(12, dtype=numpy.float32).reshape(2, 6)
BOXES = numpy.array([[0, 0, 2, 2], [1, 1, 3, 3]], numpy.float32)


def stored(question: Any = QUESTION, answer: Any = ANSWER) -> dict[str, str | bytes]:
    """The two files of the split val2014."""
    about = {"info": {}, "data_type": "mscoco", "data_subtype": "val2014", "license": {}}
    return {
        QUESTIONS: json.dumps({**about, "task_type": "Open-Ended", "questions": [question]}),
        ANSWERS: json.dumps({**about, "annotations": [answer]}),
    }


def test_questions_images_and_answers(write: Write, picture: Picture) -> None:
    image = picture("val2014/COCO_val2014_000000000042.jpg")
    (sample,) = open_dataset(f"vqa:{write(stored())}", "val")
    assert sample.id == "val2014/42000"
    assert sample.inputs == {"text": "Is it a dog?", "image": image}
    assert sample.label == sample.label_name == "yes"
    assert sample.extras["answers"] == ("no", *["yes"] * 9)
    assert sample.extras["answer_type"] == "yes/no"


def test_the_test_split_has_no_answers(write: Write, picture: Picture) -> None:
    picture("test2015/COCO_test2015_000000000042.jpg")
    name = "v2_OpenEnded_mscoco_test2015_questions.json"
    path = write({name: json.dumps({"questions": [QUESTION]})})
    (sample,) = open_dataset(f"vqa:{path}", "test")
    assert sample.label is None


def encoded(values: numpy.ndarray) -> bytes:
    """Float32 in base64, as in the .tsv files."""
    return base64.b64encode(values.astype(numpy.float32).tobytes())


@pytest.mark.parametrize(
    "cells",
    [
        [b"42", b"640", b"480", b"2", encoded(BOXES), encoded(FEATURES)],
        [
            *[b"COCO_val2014_000000000042", b"480", b"640", b"", b"", b"", b""],
            *[b"2", encoded(BOXES), encoded(FEATURES)],
        ],
    ],
    ids=["bottom-up-attention", "lxmert"],
)
def test_regions_from_tsv(write: Write, cells: list[bytes]) -> None:
    other = [cell if i else b"7" for i, cell in enumerate(cells)]
    path = write({**stored(), "f.tsv": b"\t".join(other) + b"\n" + b"\t".join(cells) + b"\n"})
    (sample,) = open_dataset(f"vqa:{path}", features=f"{path}/f.tsv")
    assert sample.inputs == {"text": "Is it a dog?"}  # the image itself is not needed
    assert numpy.array_equal(sample.extras["features"], FEATURES)
    assert numpy.array_equal(sample.extras["boxes"], BOXES)
    assert sample.extras["size"] == (480, 640)  # height and width, whichever comes first there


@pytest.mark.parametrize("name", ["42.npz", "000000000042.npz", "COCO_val2014_000000000042.npz"])
@pytest.mark.parametrize("keys", [("features", "boxes"), ("x", "bbox")])
def test_regions_from_npz(write: Write, name: str, keys: tuple[str, str]) -> None:
    path = write({**stored(), "f/readme": ""})
    numpy.savez(path / "f" / name, **dict(zip(keys, (FEATURES, BOXES), strict=True)))
    (sample,) = open_dataset(f"vqa:{path},features={path}/f")
    assert numpy.array_equal(sample.extras["features"], FEATURES)
    assert "size" not in sample.extras  # these files do not have it


def test_nothing_is_unpickled(write: Write) -> None:
    path = write({**stored(), "f/readme": ""})
    numpy.savez(path / "f" / "42.npz", features=numpy.array([{}, 1]), boxes=BOXES)
    with pytest.raises(RowError, match=r"42\.npz cannot be read"):
        list(open_dataset(f"vqa:{path}", features=f"{path}/f"))


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ([b"42", b"2"], "2 columns"),
        ([b"42", b"1", b"1", b"3", encoded(BOXES), encoded(FEATURES)], "num_boxes rows of float32"),
        ([b"42", b"1", b"1", b"2", b"!", encoded(FEATURES)], "image 42"),
        ([b"42", b"1", b"1", b"2", encoded(BOXES[:, :2]), encoded(FEATURES)], "boxes"),
        ([b"42", b"0", b"1", b"2", encoded(BOXES), encoded(FEATURES)], "an image of 0 x 1 pixels"),
        ([b"42", b"x", b"1", b"2", encoded(BOXES), encoded(FEATURES)], "Expected width, height"),
        ([b"41", b"1", b"1", b"2", encoded(BOXES), encoded(FEATURES)], "has no image 42"),
    ],
)
def test_malformed_regions_are_told(write: Write, cells: list[bytes], message: str) -> None:
    path = write({**stored(), "f.tsv": b"\t".join(cells) + b"\n"})
    with pytest.raises(RowError, match=rf"questions\[0\]: .*{message}"):
        list(open_dataset(f"vqa:{path}", features=f"{path}/f.tsv"))


@pytest.mark.parametrize(
    ("question", "answer", "message"),
    [
        ({"image_id": 42, "question_id": 42000}, ANSWER, "no 'question'"),
        ({"image_id": 42, "question": "Is it?"}, ANSWER, "no 'question_id'"),
        ("Is it?", ANSWER, "no 'question_id'"),
        ({**QUESTION, "image_id": "42"}, ANSWER, "'image_id' is a str"),
        ({**QUESTION, "image_id": 43}, ANSWER, "no image"),
        ({**QUESTION, "question_id": 1}, ANSWER, "has no question 1"),
        (QUESTION, {**ANSWER, "answers": ["yes"]}, "no 'answer'"),
    ],
)
def test_a_malformed_question_is_told(
    write: Write, picture: Picture, question: Any, answer: Any, message: str
) -> None:
    picture("val2014/COCO_val2014_000000000042.jpg")
    path = write(stored(question, answer))
    with pytest.raises(RowError, match=rf"(questions|annotations)\[0\]: .*{message}"):
        list(open_dataset(f"vqa:{path}"))
    assert list(open_dataset(f"vqa:{path}", on_error="skip")) == []


def test_what_is_missing_is_named(write: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no v2_OpenEnded_mscoco_val2014_questions"):
        open_dataset(f"vqa:{tmp_path}")
    path = write(stored())
    with pytest.raises(InputError, match="val2014"):
        open_dataset(f"vqa:{path}")
    with pytest.raises(InputError, match="no region features at"):
        open_dataset(f"vqa:{path}", features=f"{path}/nowhere")
    (path / ANSWERS).unlink()
    with pytest.raises(InputError, match="has no v2_mscoco_val2014_annotations"):
        open_dataset(f"vqa:{path}")
