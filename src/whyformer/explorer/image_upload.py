"""Uploaded images: checked by their header on arrival, decoded when their job runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits, TooMuchError
from whyformer.inputs.images import open_image
from whyformer.models.quiet import quiet_warnings

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


@dataclass(frozen=True)
class UploadedImage:
    """An image file whose size in bytes and pixels is within the limits; not decoded yet."""

    content: bytes
    size: tuple[int, int]  # width and height
    most: int  # pixels after decoding

    @property
    def factor(self) -> int:
        """By how much width and height are divided."""
        width, height = self.size
        factor = 1
        while (width // factor) * (height // factor) > self.most:
            factor += 1
        return factor

    def decode(self) -> Any:
        """Return the image in RGB, upright, reduced if it is large."""
        from PIL import Image, ImageOps

        with _image_errors(self.most):
            image: Any = Image.open(BytesIO(self.content), formats=FORMATS)
            width, height = (length // self.factor for length in image.size)
            if self.factor > 1:
                image.draft("RGB", (width, height))  # a JPEG is decoded at a smaller size
            # Its pixels may still be more than asked for: only a JPEG can be decoded smaller.
            rest = min(image.size[0] // width, image.size[1] // height)
            ImageOps.exif_transpose(image, in_place=True)
            if rest > 1 and image.mode in ("L", "RGB"):  # before open_image copies it
                image, rest = image.reduce(rest), 1
            image = open_image(image, "RGB")
            return image.reduce(rest) if rest > 1 else image


def check_image(content: bytes, limits: Limits) -> UploadedImage:
    """Return the file as an upload; raise InputError if it is too large or not an image.

    The size in pixels is in the file's header: nothing is decoded.
    """
    from PIL import Image

    if len(content) > limits.upload:
        raise TooMuchError(
            f"the image file has {_mega(len(content))} MB, more than the limit of"
            f" {_mega(limits.upload)} MB",
            remedy="Make it smaller",
        )
    with _image_errors(limits.pixels):
        width, height = Image.open(BytesIO(content), formats=FORMATS).size
    if width * height > limits.pixels:
        raise TooMuchError(
            f"the image has {width} x {height} pixels, more than the limit of"
            f" {_mega(limits.pixels)} million",
            remedy="Make it smaller",
        )
    return UploadedImage(content, (width, height), limits.decoded)


@contextmanager
def _image_errors(pixels: int) -> Iterator[None]:
    """Turn errors of Pillow into InputError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with quiet_warnings():  # our own limit is lower than the one that Pillow warns about
            yield
    except (InputError, MemoryError):
        raise
    except Image.DecompressionBombError as error:
        raise TooMuchError(
            f"the image has more than {_mega(pixels)} million pixels", remedy="Make it smaller"
        ) from error
    except UnidentifiedImageError as error:
        raise InputError(
            "the file is not an image that can be read",
            remedy=f"Choose a file of one of these formats: {', '.join(FORMATS)}",
        ) from error
    except Exception as error:  # a broken file can fail anywhere within Pillow
        raise InputError(
            "the image cannot be read: its file seems broken",
            remedy="Open it in another program and save it again",
        ) from error


def _mega(count: int) -> str:
    return f"{count / 1_000_000:.1f}".removesuffix(".0")
