"""Open image files; refuse formats that are or hold programs, which Pillow would run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whyformer.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

# Pillow hands PostScript to Ghostscript, and opens what an IPTC file holds in any format.
PROGRAMS = {
    "EPS": "PostScript, a program that draws an image",
    "IPTC": "an IPTC file, which may hold a program that draws an image",
}


def open_image_file(source: Any, argument: str = "inputs") -> Image.Image:
    """Return an image whose pixels are not read yet.

    Args:
        source: A path, or a file that is open.
        argument: Who passed it, for the error.

    Raises:
        InputError: It is or may hold a program.
    """
    from PIL import Image

    image = Image.open(source)
    name = f"the file {str(source)!r}" if isinstance(source, str | Path) else "the image"
    try:
        refuse_programs(image, name, argument)
    except InputError:
        image.close()
        raise
    return image


def refuse_programs(image: Any, name: str, argument: str = "inputs") -> None:
    """Raise InputError if reading the pixels of an image may run a program."""
    kind = PROGRAMS.get(getattr(image, "format", None) or "")
    if kind is not None:
        raise InputError(f"{name} is {kind}", argument=argument, remedy="Convert it to PNG first")
