"""Folders of images, one folder per class: the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from whyformer.datasets.dataset import Contents, Row, Sample, Spot, dataset
from whyformer.datasets.files import Where, image_files

SPLITS = ("val", "train", "test")


@dataset(
    "image_folder",
    title="Your own images, one folder per class",
    task="image-classification",
    splits=SPLITS,
    layout="CLASS/*.jpg or {train,val,test}/CLASS/*.jpg",
)
def image_folder(where: Where) -> Contents:
    """The paths of the images; classes are numbered in the order of their folders' names."""
    folders = class_folders(where)
    names = tuple(folder.name for folder in folders)
    return folder_contents(where, folders, {name: (i, name) for i, name in enumerate(names)}, names)


def class_folders(where: Where) -> list[Path]:
    """The folders of the classes, sorted by name."""
    split = where.maybe(where.split, f"ILSVRC2012_img_{where.split}") or where.path
    folders = sorted(f for f in split.iterdir() if f.is_dir()) if split.is_dir() else []
    # Those of other splits are no classes: the one that was asked for is missing.
    if not folders or {folder.name for folder in folders} <= set(SPLITS):
        raise where.missing(f"{where.split}/CLASS", "CLASS folders")
    return folders


def folder_contents(
    where: Where,
    folders: list[Path],
    known: Mapping[str, tuple[int | str, str]],
    names: tuple[str, ...],
) -> Contents:
    """The images of these folders with the label and the name known for each."""

    def rows() -> Iterator[Row]:
        for folder in folders:
            for file in image_files(folder):
                at = where.id(f"{folder.name}/{file.stem}")
                read = partial(Sample, at, file, *known[folder.name])
                yield Row(at, Spot(file), read)

    return Contents(rows, names, sum(len(image_files(folder)) for folder in folders))
