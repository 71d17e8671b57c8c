"""Grids of four ImageNet images of different classes, for the grid pointing game (GridPG)."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

import numpy
from PIL import Image

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import DatasetSource, parse_whole
from whyformer.datasets.imagenet import imagenet
from whyformer.datasets.mask import Mask
from whyformer.errors import InputError, OptionError
from whyformer.image_files import open_image_file

CELLS = 4
CELL = 224  # pixels: a grid has twice as many on each side, and the model's processor resizes it
SHORTEST = 256  # the shorter side of an image before its centre is cut out


@dataset(
    "gridpg",
    title="2x2 grids of ImageNet images of different classes (GridPG)",
    task="image-segmentation",
    splits=("val", "train"),
    layout="{val,train}/nXXXXXXXX/*.JPEG, or index.csv (file, imagenet_index, wnid, name) beside a"
    " folder images",
    licence="research use, by agreement with image-net.org",
    paper="Böhle et al. 2021",
)
def gridpg(
    source: DatasetSource, *, only: str | Collection[str] = "", draw: str | int = 0
) -> Contents:
    """Read grids of 448 x 448 pixels; each is four samples, one per cell, with the cell's class.

    Every image is in one grid at most, its centre of 224 x 224 pixels; `draw` shuffles them.
    `only` has the ids of the images to use, or is a file with one id per line: usually those that
    the model recognises. `extras["mask"]` is the cell, `extras["images"]` the ids of all four.
    """
    number = parse_whole(str(draw))
    if number is None:
        raise OptionError(
            f"draw is {draw!r}", argument="draw", remedy="Pass a whole number, the seed"
        )
    chosen = _ids(source, only)

    def rows() -> Iterator[DatasetRow]:
        found = [row for row in imagenet(source).rows() if not chosen or row.id in chosen]
        found.sort(key=lambda row: hashlib.sha256(f"{number}/{row.id}".encode()).digest())
        for grid, images in enumerate(_grids(found)):
            samples = [sample for sample, _ in images]
            for cell, (_, row) in enumerate(images):
                at = source.id(f"{grid}/{cell}")
                yield DatasetRow(at, row.spot, partial(_read, at, samples, cell))

    return Contents(rows)


def _ids(source: DatasetSource, only: str | Collection[str]) -> frozenset[str]:
    """The ids of the images to use; empty for all."""
    if not isinstance(only, str):
        return frozenset(only)
    if not only:
        return frozenset()
    file = source.find_optional(only) or Path(only).expanduser()
    try:
        return frozenset(file.read_text(encoding="utf-8").split())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"the list of images {str(file)!r} cannot be read ({error})",
            argument="only",
            remedy="Pass a text file with one id per line, as in val/17",
        ) from error


def _grids(rows: Sequence[DatasetRow]) -> Iterator[list[tuple[Sample, DatasetRow]]]:
    """Four images of different classes at a time; those that fit into no grid are left out."""
    waiting = deque((row.read(), row) for row in rows)
    while len(waiting) >= CELLS:
        grid: list[tuple[Sample, DatasetRow]] = []
        same: list[tuple[Sample, DatasetRow]] = []
        while waiting and len(grid) < CELLS:
            image = waiting.popleft()
            known = any(image[0].label == other.label for other, _ in grid)
            (same if known else grid).append(image)
        waiting.extendleft(reversed(same))
        if len(grid) < CELLS:
            return
        yield grid


def _read(at: str, images: Sequence[Sample], cell: int) -> Sample:
    mask = numpy.zeros((2 * CELL, 2 * CELL), dtype=numpy.uint8)
    left, top = _corner(cell)
    mask[top : top + CELL, left : left + CELL] = 1
    image = images[cell]
    extras = {"mask": Mask(mask), "images": tuple(one.id for one in images)}
    grid = _compose(tuple(Path(one.inputs) for one in images))
    return Sample(at, grid, image.label, image.label_name, extras)


@lru_cache(maxsize=1)  # the four samples of a grid follow each other
def _compose(files: tuple[Path, ...]) -> Image.Image:
    grid = Image.new("RGB", (2 * CELL, 2 * CELL))
    for cell, file in enumerate(files):
        with open_image_file(file, "data") as image:
            grid.paste(_centre(image.convert("RGB")), _corner(cell))
    return grid


def _centre(image: Image.Image) -> Image.Image:
    """The middle of an image, CELL x CELL, as a processor of ImageNet models cuts it out."""
    scale = SHORTEST / min(image.size)
    size = (round(image.width * scale), round(image.height * scale))
    left, top = (size[0] - CELL) // 2, (size[1] - CELL) // 2
    resized = image.resize(size, Image.Resampling.BICUBIC)
    return resized.crop((left, top, left + CELL, top + CELL))


def _corner(cell: int) -> tuple[int, int]:
    """(left, top) of a cell, row by row."""
    return CELL * (cell % 2), CELL * (cell // 2)
