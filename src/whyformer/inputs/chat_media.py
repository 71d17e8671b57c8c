"""Images, sound and video in the messages of a chat: images are opened, nothing is fetched.

Processors of transformers would fetch what an address names, and let Pillow run PostScript.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from whyformer.errors import InputError
from whyformer.image_files import open_image_file
from whyformer.inputs.detect import is_image
from whyformer.inputs.images import open_image

Message = Mapping[str, Any]
IMAGES = ("image", "image_url")  # types of parts
# Where a part holds its image, as transformers and most services name it.
SOURCES = ("image", "url", "path", "base64", "image_url")
_ADDRESS = re.compile(r"\s*[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]{100,}={0,2}\s*")  # no path is like that


def open_media(chat: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages with their images opened.

    Raises:
        InputError: An image cannot be read, or a part names an address.
    """
    return [{**message, "content": _content(message["content"])} for message in chat]


def _content(content: Any) -> Any:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    if part["type"] == "text":
        return dict(part)
    sources = {key: part[key] for key in SOURCES if part.get(key) is not None}
    if part["type"] in IMAGES and sources:
        return {"type": "image", "image": _image(*next(iter(sources.items())))}
    for value in part.values():
        _refuse_address(value)
    return dict(part)


def _image(key: str, source: Any) -> Any:
    """The image of a part; arrays are left to the processor."""
    from PIL import ImageOps

    if isinstance(source, Mapping):  # {"image_url": {"url": ...}}
        source = source.get("url")
    _refuse_address(source)
    if isinstance(source, str) and source.startswith("data:"):
        source = _decode(source.partition(",")[2])
    elif isinstance(source, str) and (key == "base64" or _BASE64.fullmatch(source)):
        source = _decode(source)
    if isinstance(source, bytes):
        source = _open(source)
    if not (isinstance(source, str | Path) or is_image(source)):
        return source
    return ImageOps.exif_transpose(open_image(source, "RGB"))


def _refuse_address(value: Any) -> None:
    if isinstance(value, str) and _ADDRESS.match(value):
        raise InputError(
            f"the messages name {value.strip()[:80]!r}, and nothing is fetched from an address",
            argument="inputs",
            remedy="Save the file, and pass its path",
        )


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except ValueError as error:
        raise InputError(
            f"an image in the messages is not base64: {error}",
            argument="inputs",
            remedy="Pass the path of the image, or a PIL image",
        ) from error


def _open(content: bytes) -> Any:
    try:
        return open_image_file(BytesIO(content))
    except OSError as error:
        raise InputError(
            f"an image in the messages cannot be read: {len(content)} bytes of no known format",
            argument="inputs",
            remedy="Pass the path of the image, or a PIL image",
        ) from error
