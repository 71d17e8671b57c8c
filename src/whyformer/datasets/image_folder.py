"""Folders of images, one folder per class: the user's own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import Source, image_files

SPLITS = ("val", "train", "test")


@dataset(
    "image_folder",
    title="Your own images, one folder per class",
    task="image-classification",
    splits=SPLITS,
    layout="CLASS/*.jpg or {train,val,test}/CLASS/*.jpg",
)
def image_folder(source: Source) -> Contents:
    """The paths of the images; classes are numbered in the order of their folders' names."""
    folders = class_folders(source)
    names = tuple(folder.name for folder in folders)
    return folder_contents(
        source, folders, {name: (i, name) for i, name in enumerate(names)}, names
    )


def class_folders(source: Source) -> list[Path]:
    """The folders of the classes, sorted by name."""
    split = source.find_optional(source.split, f"ILSVRC2012_img_{source.split}") or source.path
    folders = sorted(f for f in split.iterdir() if f.is_dir()) if split.is_dir() else []
    # Those of other splits are no classes: the one that was asked for is missing.
    if not folders or {folder.name for folder in folders} <= set(SPLITS):
        raise source.missing_error(f"{source.split}/CLASS", "CLASS folders")
    return folders


def folder_contents(
    source: Source,
    folders: list[Path],
    known: Mapping[str, tuple[int | str, str]],
    names: tuple[str, ...],
) -> Contents:
    """The images of these folders with the label and the name known for each."""

    def rows() -> Iterator[DatasetRow]:
        for folder in folders:
            for file in image_files(folder):
                at = source.id(f"{folder.name}/{file.stem}")
                read = partial(Sample, at, file, *known[folder.name])
                yield DatasetRow(at, Spot(file), read)

    return Contents(rows, names, sum(len(image_files(folder)) for folder in folders))
