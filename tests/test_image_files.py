"""Images that are programs are refused wherever one is read, before their program runs."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import EpsImagePlugin, Image

import whyformer as wf
from whyformer.datasets import open_dataset
from whyformer.datasets.mask import Mask
from whyformer.image_files import open_image_file

# Under another name; the fuzzer's corpus alone would not show it, because uploads refuse it too.
POSTSCRIPT = Path(__file__).parent / "fuzz" / "corpus" / "image" / "postscript" / "a.png"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls that would start Ghostscript."""
    calls: list[object] = []
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *call: calls.append(call))
    return calls


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table whose only image is PostScript."""
    rows = pa.table({"image": [{"bytes": POSTSCRIPT.read_bytes(), "path": "a.png"}], "label": [1]})
    pq.write_table(rows, tmp_path / "a.parquet")
    return f"parquet:{tmp_path / 'a.parquet'}"


def digit() -> wf.Attribution:
    return wf.explain(wf.models()["mnist"].samples()[0], "mnist")


READERS: dict[str, Callable[[Any], Any]] = {
    "input": lambda image: wf.explain(image, "mnist"),
    "photo": lambda image: digit().to_png(photo=image),
}


def refuses(read: Callable[[Any], Any], source: Any) -> None:
    with pytest.raises(wf.errors.InputError, match="is PostScript, a program") as caught:
        read(source)
    assert "Convert it to PNG" in str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_postscript(name: str, started: list[object]) -> None:
    refuses(READERS[name], POSTSCRIPT)
    with Image.open(POSTSCRIPT) as image:
        refuses(READERS[name], image)
    refuses(READERS[name], Image.open(BytesIO(POSTSCRIPT.read_bytes())))
    assert not started


def test_postscript_as_a_mask(started: list[object]) -> None:
    refuses(lambda file: Mask(file).read(), POSTSCRIPT)
    assert not started


@pytest.mark.parametrize("skip", [False, True])
def test_postscript_in_a_table(table: str, skip: bool, started: list[object]) -> None:
    rows = open_dataset(table, on_error="skip" if skip else "raise")
    if skip:
        assert list(rows) == []
    else:
        with pytest.raises(wf.errors.InputError, match="is PostScript"):
            list(rows)
    assert not started


def test_a_file_that_may_hold_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow opens what an IPTC file holds, in whatever format that is."""
    held = Image.new("L", (2, 2))
    held.format = "IPTC"
    monkeypatch.setattr(Image, "open", lambda source: held)
    with pytest.raises(wf.errors.InputError, match="may hold a program"):
        open_image_file("photo.iim")


def test_a_photo_that_is_none() -> None:
    with pytest.raises(wf.errors.InputError, match="the photo is 'True', a bool"):
        digit().to_png(photo=True)
