"""Images in chat messages: every way to pass one, and what is refused."""

from __future__ import annotations

import base64
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy
import pytest
from PIL import EpsImagePlugin, Image

from whyformer.errors import InputError
from whyformer.inputs.chat_media import open_media

POSTSCRIPT = Path(__file__).parents[1] / "fuzz" / "corpus" / "image" / "postscript" / "a.png"
ADDRESS = "http://127.0.0.1:1/scene.png"


def chat(**part: Any) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image", **part}, {"type": "text", "text": "?"}]}]


def opened(**part: Any) -> Any:
    ((first, second),) = (message["content"] for message in open_media(chat(**part)))
    assert second == {"type": "text", "text": "?"}
    assert set(first) == {"type", "image"}
    assert first["type"] == "image"
    return first["image"]


@pytest.fixture
def image() -> Image.Image:
    rows = numpy.random.default_rng(0).integers(0, 256, (9, 7, 3), dtype=numpy.uint8)
    return Image.fromarray(rows)


@pytest.fixture
def content(image: Image.Image) -> bytes:
    held = BytesIO()
    image.save(held, "PNG")
    return held.getvalue()


def test_every_way_to_pass_an_image(image: Image.Image, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "scene.png"
    path.write_bytes(content)
    text = base64.b64encode(content).decode()
    address = f"data:image/png;base64,{text}"
    for part in (
        {"image": image},
        {"image": path},
        {"image": str(path)},
        {"path": str(path)},
        {"url": str(path)},
        {"image": text},
        {"base64": text},
        {"image": address},
        {"type": "image_url", "image_url": {"url": address}},
        {"type": "image_url", "image_url": address},
        {"image": content},
    ):
        found = opened(**part)
        assert found.mode == "RGB"
        assert found.tobytes() == image.tobytes(), part


def test_a_rotated_photo_is_turned(image: Image.Image, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # its camera was turned
    image.save(tmp_path / "a.png", exif=exif)
    with Image.open(tmp_path / "a.png") as turned:
        for source in (tmp_path / "a.png", turned):
            assert opened(image=source).size == (9, 7)


def test_arrays_placeholders_and_texts_are_left_alone() -> None:
    array = numpy.zeros((2, 2, 3))
    assert opened(image=array) is array
    assert open_media([{"role": "user", "content": "hi"}]) == [{"role": "user", "content": "hi"}]
    placeholder = [{"role": "user", "content": [{"type": "image"}]}]
    assert open_media(placeholder) == placeholder


@pytest.mark.parametrize(
    "part",
    [
        {"image": ADDRESS},
        {"url": ADDRESS},
        {"type": "image_url", "image_url": {"url": ADDRESS}},
        {"type": "audio", "audio": ADDRESS},
        {"type": "video", "url": f" {ADDRESS.upper()}"},
        {"image": "file:///etc/passwd"},
    ],
)
def test_nothing_is_fetched(part: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"nothing is fetched from an address.*Save the file"):
        open_media(chat(**part))


def test_no_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *call: started.append(call))
    text = base64.b64encode(POSTSCRIPT.read_bytes()).decode()
    with Image.open(POSTSCRIPT) as image:
        for part in ({"image": POSTSCRIPT}, {"base64": text}, {"image": image}):
            with pytest.raises(InputError, match="is PostScript"):
                open_media(chat(**part))
    assert not started


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"image": "none.png"}, "there is no image file 'none.png'"),
        ({"base64": "a"}, "is not base64"),
        ({"base64": "abcd"}, "cannot be read: 3 bytes of no known format"),
        ({"image": b"abc"}, "cannot be read: 3 bytes of no known format"),
    ],
)
def test_what_is_no_image(part: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_media(chat(**part))
