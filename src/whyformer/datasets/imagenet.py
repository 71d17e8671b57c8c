"""ImageNet (ILSVRC-2012): class folders named by WordNet id, or an index of a folder of images."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, dataset
from whyformer.datasets.files import (
    DatasetSource,
    Record,
    file_within,
    load_json,
    open_csv,
    parse_whole,
    read_lines,
    require_utf8,
)
from whyformer.datasets.image_folder import class_folders, folder_contents
from whyformer.errors import InputError

CLASSES = 1000
_WNID = re.compile(r"n\d{8}")


@dataset(
    "imagenet",
    title="ImageNet-1k validation images",
    task="image-classification",
    splits=("val", "train"),
    layout="{val,train}/nXXXXXXXX/*.JPEG, or index.csv (file, imagenet_index, wnid, name) beside a"
    " folder images",
    licence="research use, by agreement with image-net.org",
    paper="Russakovsky et al. 2015",
)
def imagenet(source: DatasetSource) -> Contents:
    """Read the paths of images with their class, 0 to 999.

    Folders of all 1,000 classes are numbered in their order, as usual. For fewer folders, numbers
    come from imagenet_class_index.json or LOC_synset_mapping.txt. Without these files the label is
    the WordNet id, because the position of a folder would not be the class of any model.
    """
    index = source.path if source.path.is_file() else source.find_optional("index.csv")
    if index is not None:
        return _index_contents(source, index)
    folders = class_folders(source)
    for folder in folders:
        if not _WNID.fullmatch(folder.name):
            raise InputError(
                f"the name of {folder} is not a WordNet id (n and eight digits)",
                argument="data",
                remedy=f"For your own classes, pass image_folder:{source.path}",
            )
    classes = _class_index(source)
    if not classes and len(folders) == CLASSES:
        classes = {folder.name: (i, folder.name) for i, folder in enumerate(folders)}
    names = tuple(name for _, name in sorted(classes.values(), key=lambda c: c[0]))
    known: dict[str, tuple[int | str, str]] = {
        f.name: classes.get(f.name, (f.name, f.name)) for f in folders
    }
    return folder_contents(source, folders, known, names if len(names) == CLASSES else ())


def _class_index(source: DatasetSource) -> dict[str, tuple[int, str]]:
    """The number and the name of each WordNet id, from a class index file; empty if none."""
    file = source.find_optional("imagenet_class_index.json")
    if file is not None:
        try:
            found = load_json(file)
            return {wnid: (int(index), name) for index, (wnid, name) in found.items()}
        except InputError:
            raise
        except (AttributeError, TypeError, ValueError) as error:
            raise InputError(f'{file}: expected {{"0": ["n01440764", "tench"], ...}}') from error
    file = source.find_optional("LOC_synset_mapping.txt")
    if file is None:
        return {}
    classes: dict[str, tuple[int, str]] = {}
    for spot, line in read_lines(file):
        wnid, _, name = require_utf8(line, spot).strip().partition(" ")
        if wnid and not _WNID.fullmatch(wnid):
            raise InputError(f"{spot}: expected a WordNet id and a name, as in n01440764 tench")
        if wnid:
            classes[wnid] = (len(classes), name.partition(",")[0])
    return classes


def _index_contents(source: DatasetSource, file: Path) -> Contents:
    found = open_csv(file)
    path = found.column("file")
    number = found.column("imagenet_index", "index", "label")
    label_name, wnid = found.optional_column("name"), found.optional_column("wnid")
    folder = file.parent / "images" if (file.parent / "images").is_dir() else file.parent

    def read(name: str, record: Record) -> Sample:
        row = record.by_column()
        image = file_within(folder, row[path], record.spot)
        if not image.is_file():
            raise record.spot.error(f"there is no image {image}", f"a file in {folder}")
        value = parse_whole(row[number].strip())
        if value is None or value >= CLASSES:
            raise record.spot.error(f"{number} is {row[number]!r}", f"0 to {CLASSES - 1}")
        extras = {"wnid": row[wnid]} if wnid else {}
        return Sample(name, image, value, row[label_name] if label_name else None, extras)

    def rows() -> Iterator[DatasetRow]:
        for number, record in enumerate(found.records()):
            yield DatasetRow(
                source.id(number), record.spot, partial(read, source.id(number), record)
            )

    return Contents(rows)
