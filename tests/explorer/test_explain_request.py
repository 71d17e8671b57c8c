from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image

import whyformer as wf
from whyformer.errors import WhyformerError
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.explain_request import ExplainRequest, read_request
from whyformer.explorer.image_upload import check_image
from whyformer.explorer.limits import Limits, TooMuchError

LIMITS = Limits(characters=50, upload=100_000, pixels=1_000_000)


def png(width: int = 8, height: int = 8, mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, (width, height)).save(file, "PNG")
    return file.getvalue()


def coded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def read(offered: Catalogue, **asked: Any) -> ExplainRequest:
    body = json.dumps({"model": "sst2", "methods": ["gae"], **asked}).encode()
    return read_request(body, offered, LIMITS)


def test_a_text_a_pair_an_image_and_both(offered: Catalogue) -> None:
    assert read(offered, text="good").inputs == "good"
    assert read(offered, text="good", second="bad").inputs == ("good", "bad")
    image = read(offered, model="mnist", image=coded(png()))
    assert image.has_upload
    assert image.decoded().inputs.size == (8, 8)
    both = read(offered, model="lxmert_shapes", text="what?", image=coded(png())).decoded().inputs
    assert both["text"] == "what?"
    assert both["image"].mode == "RGB"


def test_an_example_is_named_by_its_number(offered: Catalogue) -> None:
    assert read(offered, model="mnist", example=3).inputs.size == (28, 28)
    own = read(offered, model="mnist", example=3, image=coded(png())).decoded().inputs
    assert own.size == (8, 8)  # what was dropped counts, not what was pressed before


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("", None),
        ("  ", None),
        ("1", 1),
        ("positive", "positive"),
        ("positive>negative", wf.contrast("positive", "negative")),
        ("1 > 0", wf.contrast(1, 0)),
    ],
)
def test_targets(offered: Catalogue, text: str, target: Any) -> None:
    assert read(offered, text="good", target=text).target == target


def test_an_answer_keeps_its_spaces_and_is_no_contrast(offered: Catalogue) -> None:
    asked: dict[str, Any] = {"model": "caption_shapes", "example": 0}
    assert read(offered, **asked).target is None
    assert read(offered, **asked, answer=" \n ").target is None
    assert read(offered, **asked, answer=" a > b").target == " a > b"
    assert read(offered, **asked, answer="7").target == "7"
    assert read(offered, **asked, max_new_tokens=5).max_new_tokens == 5
    assert read(offered, **asked).max_new_tokens is None


WRITER: dict[str, Any] = {"model": "caption_shapes", "example": 0}


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"text": "good", "answer": "x"}, "sst2 writes no text"),
        ({"text": "good", "max_new_tokens": 3}, "sst2 writes no text"),
        ({**WRITER, "answer": "x" * 51}, "the answer has 51 characters, more than the limit of 50"),
        ({**WRITER, "answer": ["x"]}, "must be a text"),
        ({**WRITER, "answer": "x", "target": "y"}, "an answer and a target are given"),
        ({**WRITER, "answer": "x", "max_new_tokens": 3}, "a given answer has a length already"),
        ({**WRITER, "max_new_tokens": 257}, "257 new tokens are more than the limit of 256"),
        ({**WRITER, "max_new_tokens": 0}, "'0' is not a number"),
        ({**WRITER, "max_new_tokens": True}, "'True' is not a number"),
        ({**WRITER, "max_new_tokens": "9" * 99}, "'99999999999999999999' is not a number"),
    ],
)
def test_answers_that_cannot_be_explained(
    offered: Catalogue, asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(WhyformerError, match=says) as failed:
        read(offered, **asked)
    assert failed.value.remedy


def test_a_detectors_object_is_named_by_its_number(offered: Catalogue) -> None:
    asked = {"model": "detr_shapes", "example": 0, "query": 3}
    assert read(offered, **asked).target == wf.query(3)
    assert read(offered, **asked, target="red circle").target == wf.query(3, "red circle")
    rather = read(offered, **asked, target="red circle>red square").target
    assert rather == wf.contrast(wf.query(3, "red circle"), wf.query(3, "red square"))


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"text": ""}, "sst2 needs a text"),
        ({"text": "x" * 51}, "51 characters, more than the limit of 50"),
        ({"text": "a", "second": "x" * 51}, "the second text has 51 characters"),
        ({"text": ["a"]}, "must be a text"),
        ({"text": "a", "target": "positive>"}, "lacks a side"),
        ({"text": "a", "target": "x" * 201}, "the target has 201 characters"),
        ({"text": "a", "methods": []}, "Choose at least one"),
        ({"text": "a", "methods": "gae"}, "not a list of names"),
        ({"text": "a", "methods": ["gea"]}, "gae"),
        ({"text": "a", "methods": [["gae"]]}, "not a list of names"),
        ({"text": "a", "model": "../../etc/passwd"}, "there is no model"),
        ({"text": "a", "model": "bert-base-uncased"}, "there is no model"),
        ({"text": "a", "model": None}, "there is no model"),
        ({"text": "a", "model": ["sst2"]}, "there is no model"),
        ({"text": "a", "path": "/etc/passwd"}, "the request may only have"),
        ({"text": "a", "query": 1}, "sst2 does not detect objects"),
        ({"model": "detr_shapes", "example": 0, "query": -1}, "a whole number from 0"),
        ({"model": "detr_shapes", "example": 0, "query": 1.5}, "a whole number from 0"),
        ({"model": "detr_shapes", "example": 0, "query": True}, "a whole number from 0"),
        ({"model": "detr_shapes", "example": 0, "query": "1"}, "a whole number from 0"),
        ({"model": "detr_shapes", "example": 0, "target": "red circle"}, "needs an object"),
        ({"model": "mnist"}, "mnist needs an image"),
        ({"model": "mnist", "example": 99}, "no example 99"),
        ({"model": "mnist", "example": -1}, "no example -1"),
        ({"model": "mnist", "example": True}, "no example True"),
        ({"model": "mnist", "example": "../x.png"}, "no example"),
        ({"model": "mnist", "image": "/etc/passwd"}, "arrived incomplete"),
        ({"model": "mnist", "image": 7}, "arrived incomplete"),
        ({"model": "mnist", "image": coded(b"GIF89a nonsense")}, "not an image that can"),
        (
            {"model": "mnist", "image": coded(b"<svg onload=alert(1)>")},
            "not an image that can",
        ),
        ({"model": "mnist", "image": coded(png()[:40])}, "not an image that can"),
        ({"model": "lxmert_shapes", "text": "a", "second": "b", "example": 0}, "one text with an"),
    ],
)
def test_everything_else_is_refused_in_a_sentence(
    offered: Catalogue, asked: dict[str, Any], says: str
) -> None:
    with pytest.raises(WhyformerError, match=says):
        read(offered, **asked)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000])
def test_what_is_no_json_object_is_refused(offered: Catalogue, body: bytes) -> None:
    with pytest.raises(WhyformerError, match="Reload the page"):
        read_request(body, offered, LIMITS)


def test_a_large_image_is_refused_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = png(5000, 5000, "1")  # a few hundred bytes
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("unpacked"))
    with pytest.raises(TooMuchError, match=r"5000 x 5000 pixels, more than the limit of 1 million"):
        check_image(bomb, LIMITS)


def test_a_bomb_beyond_pillows_own_limit_is_refused_too() -> None:
    with pytest.raises(WhyformerError, match="more than 24 million pixels"):
        check_image(png(20000, 10000, "1"), Limits(upload=10**8))


def test_a_large_file_is_refused() -> None:
    with pytest.raises(TooMuchError, match=r"0.2 MB, more than the limit of 0.1 MB"):
        check_image(b"x" * 200_000, LIMITS)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1", "LA"])
def test_every_usual_kind_of_image_is_read(mode: str) -> None:
    assert check_image(png(mode=mode), LIMITS).decode().mode == "RGB"
