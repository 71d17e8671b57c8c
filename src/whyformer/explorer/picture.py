"""The image in some bytes, checked before it is unpacked."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from whyformer.errors import InputError
from whyformer.explorer.limits import Limits, TooMuchError
from whyformer.inputs.images import open_image
from whyformer.models.quiet import quiet_warnings

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


def picture(content: bytes, limits: Limits) -> Any:
    """The image in RGB, held as it was shot; raises where it is too large, or is none."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    if len(content) > limits.upload:
        raise TooMuchError(
            f"the image file has {_mega(len(content))} MB, and {_mega(limits.upload)} MB is the"
            " most; make it smaller"
        )
    try:
        with quiet_warnings():  # our own limit is lower than the one that Pillow warns of
            image = Image.open(BytesIO(content), formats=FORMATS)
        # Its size stands at the front of the file: nothing has been unpacked yet.
        width, height = image.size
        if width * height > limits.pixels:
            raise TooMuchError(
                f"the image has {width} x {height} pixels, and {_mega(limits.pixels)} million is"
                " the most; make it smaller"
            )
        return open_image(ImageOps.exif_transpose(image), "RGB")
    except InputError:
        raise
    except Image.DecompressionBombError as error:
        raise TooMuchError(
            f"the image has more than {_mega(limits.pixels)} million pixels; make it smaller"
        ) from error
    except UnidentifiedImageError as error:
        raise InputError(
            f"this file is no image that can be read; give one of {', '.join(FORMATS)}"
        ) from error
    except Exception as error:  # a broken file can fail anywhere within Pillow
        raise InputError(
            "the image cannot be read, its file seems broken; open it elsewhere and save it again"
        ) from error


def _mega(count: int) -> str:
    return f"{count / 1_000_000:.1f}".removesuffix(".0")
