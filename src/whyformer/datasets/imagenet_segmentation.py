"""ImageNet-Segmentation: images and masks in one MATLAB v7.3 file, `gtsegs_ijcv.mat`.

MATLAB v7.3 is HDF5. `/value/img` (n, 1) refers to images (3, width, height), `/value/gt` (n, 1)
to cells whose [0, 0] refers to masks (width, height), and `/value/id` (n, 1) to names in UTF-16:
MATLAB stores columns first, so every array is transposed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy
from PIL import Image

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, import_optional
from whyformer.datasets.foreign_errors import reading
from whyformer.datasets.mask import Mask
from whyformer.errors import InputError

EXPECTED = "images (3, width, height) of bytes and masks (width, height) of the same size"


@dataset(
    "imagenet_segmentation",
    title="ImageNet-Segmentation: 4,276 images with masks of the object",
    task="image-segmentation",
    layout="gtsegs_ijcv.mat (MATLAB v7.3) with /value/img and /value/gt",
    licence="research use",
    paper="Guillaumin, Küttel and Ferrari 2014",
    package="h5py",
)
def imagenet_segmentation(source: DatasetSource) -> Contents:
    """Read images, with `extras["mask"]` and `extras["name"]`, the name in ImageNet."""
    file = source.find("gtsegs_ijcv.mat")
    library = import_optional("h5py", f"Reading {file.name}")
    advice = "Save a file of an older MATLAB again with -v7.3"
    with reading(file, source.format.layout, advice), library.File(file, "r") as opened:
        count, masks = len(opened["value/img"]), len(opened["value/gt"])
    if count != masks:
        raise InputError(f"{file} has {count} images and {masks} masks")

    def read(at: str, number: int, opened: Any, spot: Spot) -> Sample:
        try:
            image = numpy.asarray(opened[opened["value/img"][number, 0]]).T
            cell = opened[opened["value/gt"][number, 0]]
            mask = numpy.asarray(opened[cell[0, 0]]).T
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise spot.error(f"a reference is broken ({error})", EXPECTED) from error
        grey = image.ndim == 2
        if image.dtype != numpy.uint8 or not (grey or image.shape[2:] == (3,)):
            raise spot.error(f"an image of {image.dtype} {image.shape}", EXPECTED)
        if mask.shape != image.shape[:2]:
            raise spot.error(f"a mask {mask.shape} for an image {image.shape}", EXPECTED)
        picture = Image.fromarray(numpy.ascontiguousarray(image)).convert("RGB")
        extras = {"mask": Mask(numpy.ascontiguousarray(mask)), "name": _name(opened, number)}
        return Sample(at, picture, extras=extras)

    def rows() -> Iterator[DatasetRow]:
        with library.File(file, "r") as opened:
            for i in range(count):
                spot, at = Spot(file, entry=f"image {i}"), source.id(i)
                yield DatasetRow(at, spot, partial(read, at, i, opened, spot))

    return Contents(rows, count=count)


def _name(opened: Any, number: int) -> str:
    """The name of an image in ImageNet, as in n01440764_18; empty if the file has none."""
    try:
        codes = numpy.asarray(opened[opened["value/id"][number, 0]]).ravel()
        return "".join(chr(int(code)) for code in codes)
    except (KeyError, ValueError, TypeError, IndexError):
        return ""
