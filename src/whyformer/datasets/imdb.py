"""IMDB reviews: the folder `aclImdb`, or its archive, which is read without unpacking."""

from __future__ import annotations

import gzip
import re
import tarfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, cast

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, require_utf8
from whyformer.datasets.foreign_errors import reading

LABELS = ("negative", "positive")
CLASSES = {"neg": 0, "pos": 1}
LARGEST = 10_000_000  # bytes: a review has some thousands
_NAME = re.compile(r"(\d+)_(\d+)\.txt")
_MEMBER = re.compile(r"(?:.*/)?(train|val|test)/(neg|pos)/([^/]+\.txt)")


@dataset(
    "imdb",
    title="Large Movie Review Dataset",
    task="text-classification",
    splits=("test", "train", "val"),
    layout="aclImdb/{train,test}/{neg,pos}/ID_RATING.txt, as folders or inside one .tar.gz",
    licence="none stated; cite the paper",
    paper="Maas et al. 2011",
)
def imdb(source: DatasetSource, *, encoding: str = "utf-8") -> Contents:
    """Read reviews, labelled 0 negative or 1 positive, with `extras["stars"]`.

    In a folder all negative reviews come first, so draw a limited number with a seed.
    """
    archive = source.path if source.path.is_file() else source.find_optional("aclImdb.tar.gz")
    names = (source.split, f"aclImdb/{source.split}")
    folder = source.find_optional(*names) if source.path.is_dir() else None

    def row(group: str, name: str, spot: Spot, content: Callable[[], bytes]) -> DatasetRow:
        at = source.id(f"{group}/{name.removesuffix('.txt')}")
        return DatasetRow(at, spot, partial(_sample, at, group, name, spot, content, encoding))

    def from_folder(folder: Path) -> Iterator[DatasetRow]:
        for group in CLASSES:
            for file in sorted((folder / group).glob("*.txt"), key=lambda f: _number(f.name)):
                yield row(group, file.name, Spot(file), file.read_bytes)

    def from_archive(
        archive: Path, members: list[tuple[str, str, int, int]]
    ) -> Iterator[DatasetRow]:
        with _open_archive(archive) as opened:
            for group, name, start, size in members:
                spot = Spot(archive, entry=f"{source.split}/{group}/{name}")
                yield row(group, name, spot, partial(_read_member, opened, start, size, spot))

    if folder is not None:
        for group in CLASSES:
            if not (folder / group).is_dir():
                raise source.missing_error(f"{folder.name}/{group}")
        return Contents(partial(from_folder, folder), LABELS)
    if archive is None:
        raise source.missing_error(
            f"{source.split}/neg", f"aclImdb/{source.split}/neg", "aclImdb.tar.gz"
        )
    members = [
        (found[2], found[3], start, size)
        for path, start, size in list_members(archive)
        if (found := _MEMBER.fullmatch(path)) and found[1] == source.split
    ]
    if not members:
        raise source.missing_error(f"{source.split}/neg/*.txt and {source.split}/pos/*.txt")
    return Contents(partial(from_archive, archive, members), LABELS, len(members))


def list_members(archive: Path) -> list[tuple[str, int, int]]:
    """Return the name, the start and the size of every plain file of an archive, in its order.

    Nothing is written to disk and links are not followed, so names like ../../x are harmless.
    """
    found = []
    with (
        reading(archive, "a readable archive"),
        _open_archive(archive) as plain,
        tarfile.open(fileobj=plain, mode="r:") as opened,
    ):
        while (member := opened.next()) is not None:
            if member.isreg() and not member.issparse():
                found.append((member.name, member.offset_data, member.size))
            # Otherwise the archive keeps every header in memory.
            opened.members = []  # type: ignore[attr-defined]
    return found


def _open_archive(archive: Path) -> IO[bytes]:
    """The archive opened for reading, decompressed if it is gzipped."""
    with archive.open("rb") as opened:
        zipped = opened.read(2) == b"\x1f\x8b"
    return cast(IO[bytes], gzip.open(archive)) if zipped else archive.open("rb")


def _read_member(opened: IO[bytes], start: int, size: int, spot: Spot) -> bytes:
    if size > LARGEST:
        raise spot.error(f"{size} bytes", f"a review of at most {LARGEST}")
    opened.seek(start)
    return opened.read(size)


def _number(name: str) -> tuple[int, str]:
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else -1, name


def _sample(
    at: str, group: str, name: str, spot: Spot, content: Callable[[], bytes], encoding: str
) -> Sample:
    found = _NAME.fullmatch(name)
    if not found:
        raise spot.error(f"the file is called {name!r}", "ID_RATING.txt, as in 200_8.txt")
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    text = require_utf8(content().decode(codec, errors="surrogateescape"), spot).strip()
    if not text:
        raise spot.error("the review is empty", "a text")
    label = CLASSES[group]
    return Sample(at, text, label, LABELS[label], {"stars": int(found[2])})
