"""Archives with other bytes: gzipped MNIST, IMDB as .tar and .tar.gz, region features as .npz."""

from __future__ import annotations

import gzip
import io
import json
import random
import struct
import tarfile
from functools import cache
from pathlib import Path

import numpy

from tests.fuzz.mutate import TEXTS, mutate_bytes
from whyformer.datasets import open_dataset

LABELS = "t10k-labels-idx1-ubyte.gz"
IMAGES = "t10k-images-idx3-ubyte.gz"
TAR = "aclImdb.tar.gz"
NPZ = "42.npz"
NAMES = ("aclImdb/test/pos/1_9.txt", "test/neg/2_1.txt", "/test/neg/3_1.txt", "../../x", "a" * 300)


def make_mnist(draw: random.Random, folder: Path) -> None:
    """Gzipped MNIST files with other bytes, or with more in them than they state."""
    images = struct.pack(">4B3I", 0, 0, 8, 3, 2, 2, 2) + bytes(8)
    labels = struct.pack(">4BI", 0, 0, 8, 1, 2) + bytes(2)
    if draw.random() < 0.01:
        labels += bytes(50_000_000)
    for name, data in ((IMAGES, images), (LABELS, labels)):
        inside = mutate_bytes(data, draw) if draw.random() < 0.3 else data
        packed = gzip.compress(inside, 1)
        packed = mutate_bytes(packed, draw) if draw.random() < 0.6 else packed
        (folder / name).write_bytes(packed)


def read_mnist(folder: Path) -> None:
    """Read all digits."""
    list(open_dataset(f"mnist:{folder}", on_error="skip"))


def make_tar(draw: random.Random, folder: Path) -> None:
    """A tar archive with odd names, types, sizes and bytes."""
    out = io.BytesIO()
    form = draw.choice((tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT))
    with tarfile.open(fileobj=out, mode="w", format=form, errors="surrogateescape") as opened:
        for _ in range(draw.randint(1, 4)):
            entry = tarfile.TarInfo(draw.choice(NAMES)[:90])
            text = draw.choice((b"a good film", b"", b"\xff\xfe", b"\0" * 600))
            entry.size = len(text)
            if draw.random() < 0.3:
                entry.type = draw.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE))
                entry.linkname = draw.choice(TEXTS[2:5])[:90]
            opened.addfile(entry, io.BytesIO(text))
    data = out.getvalue()
    if draw.random() < 0.2:  # a size that the archive does not have, with a sound checksum
        data = _with_size(data, draw.choice((b"77777777777\0", b"\x80" + b"\xff" * 11, b"-1" * 6)))
    data = mutate_bytes(data, draw) if draw.random() < 0.6 else data
    data = gzip.compress(data, 1) if draw.random() < 0.5 else data
    (folder / TAR).write_bytes(mutate_bytes(data, draw) if draw.random() < 0.4 else data)


def _with_size(data: bytes, size: bytes) -> bytes:
    """The archive with another size in its first header."""
    head = data[:124] + size + data[136:148] + b" " * 8 + data[156:512]
    return head[:148] + b"%06o\0 " % sum(head) + head[156:] + data[512:]


def read_tar(folder: Path) -> None:
    """Read all reviews."""
    list(open_dataset(f"imdb:{folder}", on_error="skip"))


@cache
def _npz() -> tuple[bytes, ...]:
    made = []
    for write in (numpy.savez, numpy.savez_compressed):
        out = io.BytesIO()
        write(out, features=numpy.ones((2, 6), "f4"), boxes=numpy.ones((2, 4), "f4"))
        made.append(out.getvalue())
    return tuple(made)


def make_npz(draw: random.Random, folder: Path) -> None:
    """Region features (a zip archive of arrays) with other bytes or stated shapes."""
    data = draw.choice(_npz())
    if draw.random() < 0.3:
        shape = draw.choice((b"(99999999, 6), ", b"(2, 9999999999)", b"(-2, 6), }     "))
        data = data.replace(b"(2, 6), }      "[: len(shape)], shape)
    if draw.random() < 0.2:
        data = data.replace(b"'<f4'", draw.choice((b"'|O' ", b"'<f9'", b"'<U4'")))
    (folder / NPZ).write_bytes(mutate_bytes(data, draw) if draw.random() < 0.8 else data)


def read_npz(folder: Path) -> None:
    """Read a question with the features of its image."""
    question = {"image_id": 42, "question": "Is it a dog?", "question_id": 42000}
    file = folder / "v2_OpenEnded_mscoco_test2015_questions.json"
    file.write_text(json.dumps({"questions": [question]}), "utf-8")
    list(open_dataset(f"vqa:{folder}", "test2015", on_error="skip", features=str(folder)))
