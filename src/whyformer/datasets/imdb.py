"""IMDB reviews: the `aclImdb` folder, or the archive it comes in, which is never unpacked."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from whyformer.datasets.dataset import Contents, Row, Sample, Spot, dataset
from whyformer.datasets.files import Where, clean
from whyformer.errors import InputError

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
def imdb(where: Where, *, encoding: str = "utf-8") -> Contents:
    """The reviews, labelled 0 negative or 1 positive, with the stars that they gave.

    From a folder all negative ones come first, from an archive they come as they are stored: take
    a limited number with a seed.
    """
    archive = where.path if where.path.is_file() else where.maybe("aclImdb.tar.gz")
    folder = where.maybe(where.split, f"aclImdb/{where.split}")
    if folder is None and where.path.name == where.split and (where.path / "neg").is_dir():
        folder = where.path

    def row(group: str, name: str, spot: Spot, content: Callable[[], bytes]) -> Row:
        at = where.id(f"{group}/{name.removesuffix('.txt')}")
        return Row(at, spot, partial(_sample, at, group, name, spot, content, encoding))

    def from_folder(folder: Path) -> Iterator[Row]:
        for group in CLASSES:
            for file in sorted((folder / group).glob("*.txt"), key=lambda f: _number(f.name)):
                yield row(group, file.name, Spot(file), file.read_bytes)

    def from_archive(archive: Path) -> Iterator[Row]:
        for member, content in members(archive):
            found = _MEMBER.fullmatch(member)
            if found and found[1] == where.split:
                yield row(found[2], found[3], Spot(archive, entry=member), content)

    if folder is not None:
        for group in CLASSES:
            if not (folder / group).is_dir():
                raise where.missing(f"{folder.name}/{group}")
        return Contents(partial(from_folder, folder), LABELS)
    if archive is None:
        raise where.missing(f"{where.split}/neg", f"aclImdb/{where.split}/neg", "aclImdb.tar.gz")
    if next(from_archive(archive), None) is None:
        raise where.missing(f"{where.split}/neg/*.txt and {where.split}/pos/*.txt")
    return Contents(partial(from_archive, archive), LABELS)


def members(archive: Path) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The name of every plain file of an archive and a function that reads it, in stored order.

    Nothing is written to disk and links are not followed, so names like ../../x lead nowhere.
    """
    try:
        with tarfile.open(archive) as opened:
            while (member := opened.next()) is not None:
                if member.isfile() and member.size <= LARGEST:
                    yield member.name, partial(_bytes, opened, member)
                # Else the archive keeps every header it has met: tens of thousands here.
                opened.members = []  # type: ignore[attr-defined]
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InputError(
            f"{archive} cannot be read as an archive ({error}). Was it copied completely?"
        ) from error


def _bytes(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(member)
    assert content is not None  # a plain file, as was seen to
    return content.read()


def _number(name: str) -> tuple[int, str]:
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else -1, name


def _sample(
    at: str, group: str, name: str, spot: Spot, content: Callable[[], bytes], encoding: str
) -> Sample:
    found = _NAME.fullmatch(name)
    if not found:
        raise spot.wrong(f"the file is called {name!r}", "ID_RATING.txt, as in 200_8.txt")
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    text = clean(content().decode(codec, errors="surrogateescape"), spot).strip()
    if not text:
        raise spot.wrong("the review is empty", "a text")
    label = CLASSES[group]
    return Sample(at, text, label, LABELS[label], {"stars": int(found[2])})
