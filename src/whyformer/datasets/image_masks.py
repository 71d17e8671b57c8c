"""Read images and masks of their objects from two folders, matched by file name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import (
    DatasetSource,
    Record,
    file_within,
    image_files,
    open_csv,
    parse_whole,
)
from whyformer.datasets.mask import Mask
from whyformer.errors import OptionError

ENDINGS = (".png", ".bmp", ".tif", ".tiff", ".gif", ".jpg")


@dataclass(frozen=True)
class Folders:
    """The folders of images and masks, and the meaning of the values of a mask."""

    images: Path
    masks: Path
    foreground: tuple[int, ...] = ()
    ignore: tuple[int, ...] = ()

    def mask(self, image: Path, spot: Spot) -> Mask:
        """Return the mask with the name of the image."""
        for ending in ENDINGS:
            file = self.masks / f"{image.stem}{ending}"
            if file.is_file():
                return Mask(file, self.foreground, self.ignore)
        raise spot.error(
            f"{image.name} has no mask {self.masks / image.stem}.png", "a mask for every image"
        )


@dataset(
    "image_masks",
    title="Your own images with masks of the object",
    task="image-segmentation",
    layout="images/NAME.jpg and masks/NAME.png; a mask is 0 at the background",
)
def image_masks(
    source: DatasetSource, *, masks: str = "masks", foreground: str = "", ignore: str = ""
) -> Contents:
    """Read paths of images, with `extras["mask"]`; `foreground="1|2"` names values of a mask."""
    folders = Folders(
        _folder(source, "images"), _folder(source, masks), _values(foreground), _values(ignore)
    )
    files = image_files(folders.images)

    def read(name: str, file: Path, spot: Spot) -> Sample:
        return Sample(name, file, extras={"mask": folders.mask(file, spot)})

    def rows() -> Iterator[DatasetRow]:
        for file in files:
            at, spot = source.id(file.stem), Spot(file)
            yield DatasetRow(at, spot, partial(read, at, file, spot))

    return Contents(rows, count=len(files))


@dataset(
    "pets",
    title="Oxford-IIIT Pet with trimaps",
    task="image-segmentation",
    layout="images/NAME.jpg, trimaps/NAME.png (1 animal, 2 background, 3 boundary) and index.csv"
    " (file, breed, imagenet_index)",
    licence="CC BY-SA 4.0",
    paper="Parkhi et al. 2012",
)
def pets(source: DatasetSource) -> Contents:
    """Read paths of images, with their ImageNet class and `extras["mask"]`.

    The boundary between animal and background is ignored.
    """
    masks = source.find_optional("trimaps", "annotations/trimaps")
    if masks is None:
        raise source.missing_error("trimaps", "annotations/trimaps")
    folders = Folders(_folder(source, "images"), masks, foreground=(1,), ignore=(3,))
    found = open_csv(source.find("index.csv"))
    path, breed = found.column("file"), found.column("breed")
    number = found.optional_column("imagenet_index")

    def read(name: str, record: Record) -> Sample:
        row, spot = record.by_column(), record.spot
        image = file_within(folders.images, row[path], spot)
        if not image.is_file():
            raise spot.error(f"there is no image {image}", f"a file in {folders.images}")
        value = row[number].strip() if number else ""
        label = parse_whole(value)
        if value and label is None:
            raise spot.error(f"{number} is {value!r}", "a class of ImageNet, 0 to 999")
        extras = {"mask": folders.mask(image, spot), "breed": row[breed]}
        return Sample(name, image, label, row[breed], extras)

    def rows() -> Iterator[DatasetRow]:
        for i, record in enumerate(found.records()):
            yield DatasetRow(source.id(i), record.spot, partial(read, source.id(i), record))

    return Contents(rows)


def _folder(source: DatasetSource, name: str) -> Path:
    found = source.find_optional(name)
    if found is None or not found.is_dir():
        raise source.missing_error(f"folder {name}")
    return found


def _values(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(value) for value in text.split("|")) if text else ()
    except ValueError:
        raise OptionError(
            f"{text!r} is not a list of values of the mask", remedy="Write numbers as in 1|2"
        ) from None
