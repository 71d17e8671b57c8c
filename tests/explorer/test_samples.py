"""The table of a dataset's samples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from tests.explorer.conftest import Client, serve
from whyformer.errors import InputError
from whyformer.explorer.app import create_app
from whyformer.explorer.catalogue import Catalogue
from whyformer.explorer.samples import SampleTable, read_samples


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> SampleTable:
    """Sixty texts, and the folder of two images after them."""
    folder = tmp_path_factory.mktemp("samples")
    (folder / "texts.csv").write_text("text,label\n" + "good film,positive\n" * 60)
    for name in ("a", "b"):
        (folder / "images" / name).mkdir(parents=True)
        Image.new("RGB", (400, 300)).save(folder / "images" / name / "one.png")
    texts = read_samples(f"csv:{folder / 'texts.csv'}", 1000)
    images = read_samples(f"image_folder:{folder / 'images'}", 1000)
    return SampleTable(texts.name, texts.samples + images.samples)


@pytest.fixture(scope="module")
def walker(offered: Catalogue, table: SampleTable) -> Iterator[Client]:
    """A client of an explorer with samples."""
    yield from serve(create_app(Catalogue(list(offered.entries.values()), table)))


def test_rows_come_in_parts(walker: Client) -> None:
    first = walker.get("/samples").events[0]
    assert (first["count"], first["start"], len(first["rows"])) == (62, 0, 50)
    assert first["rows"][0] == {
        "index": 0,
        "text": "good film",
        "second": None,
        "image": False,
        "label": "positive",
    }
    last = walker.get("/samples?start=50").events[0]
    assert [row["image"] for row in last["rows"]] == [False] * 10 + [True] * 2
    assert walker.get("/samples?start=99999").events[0]["rows"] == []
    for wrong in ("-1", "x", "9" * 5000, "%00"):
        assert walker.get(f"/samples?start={wrong}").status == 404


def test_an_image_is_sent_small_and_explained_by_its_number(walker: Client) -> None:
    assert walker.get("/samples/60/image").body.startswith(b"\x89PNG")
    assert walker.get("/samples/0/image").status == 400
    assert walker.get("/samples/62/image").status == 400
    done = walker.explain(model="mnist", methods=["rollout"], sample=60)
    assert done.events[-1] == {"event": "done"}
    for wrong in (62, -1, "x", True, 0):
        answer = walker.explain(model="mnist", methods=["rollout"], sample=wrong)
        assert answer.status == 400
        assert answer.says


def test_the_page_names_the_file_without_its_folder(walker: Client, table: SampleTable) -> None:
    page = walker.get("/").body.decode()
    assert table.name == "texts.csv"
    assert "Samples of" in page
    assert "/texts.csv" not in page


def test_without_samples_there_is_no_table(client: Client) -> None:
    assert "samples-field" not in client.get("/").body.decode()
    assert client.get("/samples").events[0]["count"] == 0


def test_data_that_are_not_there_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        create_app(data=f"csv:{tmp_path / 'none.csv'}")
    (tmp_path / "empty.csv").write_text("text,label\n")
    with pytest.raises(InputError):
        create_app(data=f"csv:{tmp_path / 'empty.csv'}")
