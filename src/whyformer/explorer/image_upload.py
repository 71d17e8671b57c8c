"""Uploaded images: size and format are checked before decoding."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits, TooMuchError
from whyformer.inputs.images import open_image
from whyformer.models.quiet import quiet_warnings

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


def read_image(content: bytes, limits: Limits) -> Any:
    """Return the image in RGB, upright; raise InputError if it is too large or not an image."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if len(content) > limits.upload:
        raise TooMuchError(
            f"the image file has {_mega(len(content))} MB, more than the limit of"
            f" {_mega(limits.upload)} MB",
            remedy="Make it smaller",
        )
    try:
        with quiet_warnings():  # our own limit is lower than the one that Pillow warns about
            image = Image.open(BytesIO(content), formats=FORMATS)
        # The size is in the file's header: nothing has been decoded yet.
        width, height = image.size
        if width * height > limits.pixels:
            raise TooMuchError(
                f"the image has {width} x {height} pixels, more than the limit of"
                f" {_mega(limits.pixels)} million",
                remedy="Make it smaller",
            )
        return open_image(ImageOps.exif_transpose(image), "RGB")
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise TooMuchError(
            f"the image has more than {_mega(limits.pixels)} million pixels",
            remedy="Make it smaller",
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
