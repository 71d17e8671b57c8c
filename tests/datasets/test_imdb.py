"""IMDB as folders and as an archive."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path

import pytest

from tests.datasets.conftest import Write
from whyformer.datasets import RowError, open_dataset
from whyformer.datasets.imdb import list_members
from whyformer.errors import InputError

FILES: dict[str, str | bytes] = {
    "aclImdb/test/neg/10_3.txt": "Too long.<br />Too loud.",
    "aclImdb/test/neg/2_1.txt": "\ufeffDreadful café",
    "aclImdb/test/pos/0_10.txt": "Lovely",
    "aclImdb/train/pos/0_9.txt": "Of another split",
    "aclImdb/train/neg/0_2.txt": "Of another split",
    "aclImdb/README": "not a review",
}


def archive(folder: Path, files: dict[str, str | bytes], mode: str = "w:gz") -> Path:
    """The path of an archive of these files."""
    path = folder / ("aclImdb.tar.gz" if mode == "w:gz" else "aclImdb.tar")
    with tarfile.open(path, mode) as opened:  # type: ignore[call-overload]
        for name, content in files.items():
            raw = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size = len(raw)
            opened.addfile(info, io.BytesIO(raw))
    return path


def test_a_folder_is_read_in_the_order_of_its_numbers(write: Write) -> None:
    found = open_dataset(f"imdb:{write(FILES)}")
    assert [(s.id, s.inputs, s.label, s.label_name, s.extras["stars"]) for s in found] == [
        ("test/neg/2_1", "Dreadful café", 0, "negative", 1),
        ("test/neg/10_3", "Too long.<br />Too loud.", 0, "negative", 3),
        ("test/pos/0_10", "Lovely", 1, "positive", 10),
    ]
    assert len(open_dataset(f"imdb:{write({})}/aclImdb", "train")) == 2


@pytest.mark.parametrize("mode", ["w:gz", "w"])
def test_an_archive_says_the_same(write: Write, tmp_path: Path, mode: str) -> None:
    path = archive(tmp_path, FILES, mode)
    found = open_dataset(f"imdb:{path}", "test")
    unpacked = {s.id: s for s in open_dataset(f"imdb:{write(FILES)}/aclImdb", "test")}
    assert {s.id: s for s in found} == unpacked
    assert len(found) == 3
    assert len(list(open_dataset(f"imdb:{path}", "test", limit=2, seed=0))) == 2


def test_an_archive_in_the_folder_is_found(tmp_path: Path) -> None:
    archive(tmp_path, FILES)
    assert len(open_dataset(f"imdb:{tmp_path}")) == 3


def test_an_archive_cannot_reach_outside(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret", encoding="utf-8")
    place = tmp_path / "data"
    place.mkdir()
    path = place / "aclImdb.tar.gz"
    with tarfile.open(path, "w:gz") as opened:
        for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
            link = tarfile.TarInfo(f"aclImdb/test/neg/{kind.decode()}_1.txt")
            link.type, link.linkname = kind, str(secret)
            opened.addfile(link)
        for name in ("../../test/neg/7_1.txt", "/test/pos/8_9.txt"):
            info = tarfile.TarInfo(name)
            info.size = 4
            opened.addfile(info, io.BytesIO(b"fine"))
    before = sorted(tmp_path.rglob("*"))
    samples = list(open_dataset(f"imdb:{path}", "test"))
    assert [(s.id, s.inputs) for s in samples] == [
        ("test/neg/7_1", "fine"),
        ("test/pos/8_9", "fine"),
    ]
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("as_archive", [False, True])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("3_1.txt", b"caf\xe9", "byte 0xe9"),
        ("3_1.txt", b" \n", "the review is empty"),
        ("three.txt", b"fine", "ID_RATING"),
    ],
)
def test_a_malformed_review_is_told_by_its_file(
    write: Write, tmp_path: Path, name: str, content: bytes, message: str, as_archive: bool
) -> None:
    files = {**FILES, f"aclImdb/test/neg/{name}": content}
    path = archive(tmp_path, files) if as_archive else write(files)
    with pytest.raises(RowError, match=rf"test/neg/{name}: .*{message}"):
        list(open_dataset(f"imdb:{path}", "test"))
    assert len(list(open_dataset(f"imdb:{path}", "test", on_error="skip"))) == 3


def test_what_is_missing_or_broken_is_named(write: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no test/neg.*aclImdb\.tar\.gz.*layout of imdb"):
        open_dataset(f"imdb:{tmp_path}")
    path = archive(tmp_path, FILES)
    with pytest.raises(InputError, match="has no val/neg"):
        open_dataset(f"imdb:{path}", "val")
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(InputError, match=r"is not a readable archive .* that the file is complete"):
        open_dataset(f"imdb:{path}")
    write({"other.tar.gz": "not an archive"})
    with pytest.raises(InputError, match="is not a readable archive"):
        open_dataset(f"imdb:{tmp_path}/other.tar.gz")


@pytest.mark.data
def test_the_published_reviews(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = list_members(data / "imdb" / "aclImdb.tar.gz")
    groups = Counter(tuple(n.split("/")[-3:-1]) for n, _, _ in listed if n.endswith(".txt"))
    assert sum(groups.values()) == 50_000
    assert groups["train", "neg"] == groups["train", "pos"] == 10_000
    assert groups["val", "neg"] == groups["val", "pos"] == 2_500
    # Listing 50,000 files takes seconds, so it is done once.
    monkeypatch.setattr("whyformer.datasets.imdb.list_members", lambda archive: listed)
    found = open_dataset(f"imdb:{data}/imdb", "test")
    assert len(found) == 25_000
    samples = [(s.label, s.extras["stars"], len(s.inputs)) for s in found]
    assert Counter(label for label, _, _ in samples) == {0: 12_500, 1: 12_500}
    # As the README of the dataset says.
    assert all(stars <= 4 if label == 0 else stars >= 7 for label, stars, _ in samples)
    assert 1_000 < sum(length for _, _, length in samples) / 25_000 < 1_600
