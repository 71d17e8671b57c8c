"""The original photo under an overlay: find the part of it that the model saw."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from whyformer.errors import InputError
from whyformer.image_files import open_image_file, refuse_programs

LARGEST = 1024  # pixels of the longer side of a photo that is drawn
COMPARED = 32  # pixels of the sides at which photo and input are compared
UNLIKE = 0.08  # the mean difference of pixels in 0..1 from which it is another photo

Crop = tuple[int, int, int, int]  # top, left, height, width


def read_photo(photo: Any) -> Tensor:
    """Return a path, a PIL image or a tensor as (3, height, width) in 0..1, at most LARGEST long.

    Raises:
        InputError: It is nothing of these, or cannot be read.
    """
    if isinstance(photo, Tensor):
        if photo.ndim != 3 or photo.shape[0] != 3:
            raise InputError(
                f"the photo is a tensor of shape {tuple(photo.shape)}",
                argument="photo",
                remedy="Pass (3, height, width) in 0..1, a PIL image or a path",
            )
        pixels = photo.detach().cpu().double()
    else:
        pixels = _read_file(photo)
    longest = max(pixels.shape[1:])
    if longest > LARGEST:
        size = [max(1, round(side * LARGEST / longest)) for side in pixels.shape[1:]]
        pixels = interpolate(pixels[None], size, mode="area")[0]
    return pixels


def _read_file(photo: Any) -> Tensor:
    import numpy
    from PIL import Image, ImageOps

    if not isinstance(photo, str | Path | Image.Image):
        raise InputError(
            f"the photo is {str(photo)[:80]!r}, a {type(photo).__name__}",
            argument="photo",
            remedy="Pass the path of the photo, a PIL image or a tensor",
        )
    try:
        opened = photo if isinstance(photo, Image.Image) else open_image_file(photo, "photo")
        refuse_programs(opened, "the photo", "photo")
        array = numpy.asarray(ImageOps.exif_transpose(opened).convert("RGB"))
    except InputError:
        raise
    except (OSError, AttributeError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(
            f"the photo {str(photo)[:80]!r} cannot be read ({error})",
            argument="photo",
            remedy="Pass the path of the photo, or a PIL image",
        ) from error
    return torch.as_tensor(array.copy()).permute(2, 0, 1).double() / 255


def find_crop(photo: Tensor, seen: Tensor) -> Crop:
    """Return the part of the photo that was scaled to what the model saw, by comparing pixels.

    Image processors scale the whole photo, or cut its middle with the shape of the input.

    Raises:
        InputError: No such part looks like the input.
    """
    target = _small(seen.double())
    height, width = photo.shape[1:]
    crops = [(0, 0, height, width)]
    largest = min(height / seen.shape[1], width / seen.shape[2])
    for percent in range(100, 49, -1):
        tall, wide = (round(largest * side * percent / 100) for side in seen.shape[1:])
        if tall and wide:
            crops.append(((height - tall) // 2, (width - wide) // 2, tall, wide))
    away = [float((_small(_cut(photo, crop)) - target).abs().mean()) for crop in crops]
    best = min(range(len(crops)), key=away.__getitem__)
    if away[best] > UNLIKE:
        raise InputError(
            "the photo does not look like what the model saw, neither whole nor its middle",
            argument="photo",
            remedy="Pass the photo that was explained",
        )
    return crops[best]


def _cut(photo: Tensor, crop: Crop) -> Tensor:
    top, left, height, width = crop
    return photo[:, top : top + height, left : left + width]


def _small(image: Tensor) -> Tensor:
    return interpolate(image[None], (COMPARED, COMPARED), mode="area")[0]
