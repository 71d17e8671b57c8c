"""COCO instances: images with the boxes and outlines of the objects in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy
from PIL import Image, ImageDraw

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, file_within, get_entry, load_json
from whyformer.errors import InputError

Number = (int, float)


@dataclass(frozen=True)
class Instance:
    """One object in an image."""

    category: int  # COCO's category id: 1 to 90, with gaps
    name: str
    box: tuple[float, float, float, float]  # left, top, right, bottom, in pixels
    size: tuple[int, int]  # of the image: height, width
    outline: Any = None  # polygons, or run lengths
    crowd: bool = False

    def mask(self) -> numpy.ndarray[Any, numpy.dtype[numpy.uint8]]:
        """Return 1 at the object and 0 elsewhere (height, width); its box if it has no outline."""
        if isinstance(self.outline, Mapping):
            return _from_runs(self.outline["counts"], *self.outline["size"])
        image = Image.new("L", (self.size[1], self.size[0]))
        draw = ImageDraw.Draw(image)
        if not self.outline:
            left, top, right, bottom = self.box
            draw.rectangle((left, top, right - 1, bottom - 1), fill=1)
        for polygon in self.outline or ():
            draw.polygon([float(number) for number in polygon], fill=1)
        return numpy.asarray(image)


@dataset(
    "coco",
    title="COCO instances",
    task="object-detection",
    splits=("val2017", "train2017", "val2014", "train2014"),
    layout="annotations/instances_val2017.json and a folder val2017 of images",
    licence="annotations CC BY 4.0; images by their photographers",
    paper="Lin et al. 2014",
)
def coco(source: DatasetSource, *, images: str = "") -> Contents:
    """Read the paths of images, with `extras["objects"]`, a tuple of `Instance`.

    `images` is the folder of images, if it is not the one named by the split.
    """
    split = source.split
    file = source.find(f"annotations/instances_{split}.json", f"instances_{split}.json")
    folder = Path(images).expanduser() if images else _images(source, file)
    found = load_json(file)
    top = Spot(file)
    pictures = get_entry(found, "images", list, top)
    names = {
        get_entry(c, "id", int, top): get_entry(c, "name", str, top)
        for c in get_entry(found, "categories", list, top)
    }
    objects: dict[int, list[tuple[Spot, Any]]] = defaultdict(list)
    for i, annotation in enumerate(get_entry(found, "annotations", list, top)):
        spot = Spot(file, entry=f"annotations[{i}]")
        objects[get_entry(annotation, "image_id", int, spot)].append((spot, annotation))

    def read(at: str, picture: Any, spot: Spot) -> Sample:
        number = get_entry(picture, "id", int, spot)
        path = file_within(folder, get_entry(picture, "file_name", str, spot), spot)
        if not path.is_file():
            raise spot.error(f"there is no image {path}", f"a file in {folder}")
        size = get_entry(picture, "height", int, spot), get_entry(picture, "width", int, spot)
        if min(size) < 1:
            raise spot.error(f"height and width are {size}", "at least a pixel")
        marked = (_instance(a, names, size, at_) for at_, a in objects.get(number, ()))
        return Sample(at, path, extras={"objects": tuple(marked), "image_id": number})

    def rows() -> Iterator[DatasetRow]:
        for i, picture in enumerate(pictures):
            spot = Spot(file, entry=f"images[{i}]")
            known = isinstance(picture, dict) and isinstance(picture.get("id"), int)
            at = source.id(picture["id"] if known else f"images[{i}]")
            yield DatasetRow(at, spot, partial(read, at, picture, spot))

    return Contents(rows, tuple(names[number] for number in sorted(names)), len(pictures))


def _numbers(values: Any, kind: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _images(source: DatasetSource, file: Path) -> Path:
    around = (file.parent, file.parent.parent)
    tried = [f / n for f in around for n in (source.split, f"images/{source.split}", "images")]
    return next((folder for folder in tried if folder.is_dir()), file.parent)


def _instance(
    annotation: Any, names: Mapping[int, str], size: tuple[int, int], spot: Spot
) -> Instance:
    category = get_entry(annotation, "category_id", int, spot)
    if category not in names:
        raise spot.error(f"category {category} is not listed", "one of 'categories'")
    box = get_entry(annotation, "bbox", list, spot)
    if len(box) != 4 or not _numbers(box, Number) or min(box[2:]) < 0:
        raise spot.error(f"bbox is {box}", "left, top, width and height")
    left, top, width, height = map(float, box)
    outline = annotation.get("segmentation")
    if isinstance(outline, dict):
        counts, shape = (outline.get(key) for key in ("counts", "size"))
        if not (isinstance(counts, str) or _numbers(counts, int)) or shape != list(size):
            raise spot.error("run lengths of another size", f"counts, and size {list(size)}")
    elif outline and not (
        isinstance(outline, list)
        and all(_numbers(p, Number) and len(p) >= 6 and len(p) % 2 == 0 for p in outline)
    ):
        raise spot.error("the outline is not a polygon", "x and y of three points or more")
    return Instance(
        category,
        names[category],
        (left, top, left + width, top + height),
        size,
        outline,
        bool(annotation.get("iscrowd")),
    )


def _from_runs(
    counts: list[int] | str, height: int, width: int
) -> numpy.ndarray[Any, numpy.dtype[numpy.uint8]]:
    """The mask of run lengths, which start with zeros and go down the columns."""
    runs = _decode_runs(counts) if isinstance(counts, str) else counts
    values = numpy.arange(len(runs)) % 2
    if min(runs, default=0) < 0 or sum(runs) != height * width:
        raise InputError(f"run lengths of {sum(runs)} pixels for a mask of {height} x {width}")
    return numpy.repeat(values, runs).astype(numpy.uint8).reshape((height, width), order="F")


def _decode_runs(text: str) -> list[int]:
    """The run lengths in COCO's compressed text.

    Five bits per character, lowest first, the sixth says that more follow, the last one's fifth is
    the sign; from the fourth number on they are differences to the number two before.
    """
    runs: list[int] = []
    value = shift = 0
    for char in text:
        bits = ord(char) - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20:
            continue
        if bits & 0x10:
            value -= 1 << shift
        runs.append(value + runs[-2] if len(runs) > 2 else value)
        value = shift = 0
    return runs
