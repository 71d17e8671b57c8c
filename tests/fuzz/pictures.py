"""Image files with other bytes, cut off, or with huge sizes in their headers."""

from __future__ import annotations

import io
import random
import struct
import zlib
from contextlib import suppress
from functools import cache
from pathlib import Path

from PIL import Image

from tests.fuzz.mutate import mutate_bytes
from whyformer.errors import WhyformerError
from whyformer.explorer.image_upload import check_image
from whyformer.explorer.limits import Limits
from whyformer.inputs.images import open_image

FILE = "a.png"
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM", "TGA", "ICO", "PCX", "SGI", "DDS",
           "JPEG2000", "ICNS", "MSP", "EPS", "IM", "XBM", "QOI", "DIB")  # fmt: skip
MODES = {"MSP": "1", "XBM": "1"}
SIZES = (0, 1, 65535, 2**31 - 1, 2**32 - 1)


@cache
def _pictures() -> tuple[bytes, ...]:
    made = []
    Image.init()
    for form in FORMATS:
        if form not in Image.SAVE:
            continue
        out = io.BytesIO()
        picture = Image.new(MODES.get(form, "RGB"), (9, 7), None if form in MODES else (200, 3, 6))
        picture.save(out, form)
        made.append(out.getvalue())
    frames = [Image.new("P", (9, 7), colour) for colour in range(3)]
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:])
    with_exif, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6  # orientation
    Image.new("RGB", (9, 7)).save(with_exif, "JPEG", exif=exif)
    return (*made, out.getvalue(), with_exif.getvalue())


def _stated(width: int, height: int, kind: int) -> bytes:
    """A small file that states another size."""
    if kind == 0:
        head = b"IHDR" + struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
        crc = struct.pack(">I", zlib.crc32(head))
        return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + crc + _pictures()[0][33:]
    if kind == 1:
        picture = _pictures()[FORMATS.index("BMP")]
        return picture[:18] + struct.pack("<II", width, height) + picture[26:]
    if kind == 2:
        picture = _pictures()[FORMATS.index("GIF")]
        return picture[:6] + struct.pack("<HH", width & 65535, height & 65535) + picture[10:]
    return f"P6 {width} {height} 255\n".encode() + bytes(30)


def make(draw: random.Random, folder: Path) -> None:
    """An image file with other bytes or another size."""
    if draw.random() < 0.1:
        data = _stated(draw.choice(SIZES), draw.choice(SIZES), draw.randrange(4))
    else:
        data = draw.choice(_pictures())
        data = data[: draw.randrange(len(data))] if draw.random() < 0.1 else data
        data = mutate_bytes(data, draw)
    (folder / FILE).write_bytes(data)


def read(folder: Path) -> None:
    """Open the file as an input, and as an upload to the explorer."""
    with suppress(WhyformerError):
        open_image(folder / FILE, "RGB")
    check_image((folder / FILE).read_bytes(), Limits()).decode()
