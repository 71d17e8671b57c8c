"""Read images from one folder per class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from whyformer.datasets.dataset import Contents, DatasetRow, Sample, Spot, dataset
from whyformer.datasets.files import DatasetSource, image_files

SPLITS = ("val", "train", "test")


@dataset(
    "image_folder",
    title="Your own images, one folder per class",
    task="image-classification",
    splits=SPLITS,
    layout="CLASS/*.jpg or {train,val,test}/CLASS/*.jpg",
)
def image_folder(source: DatasetSource) -> Contents:
    """Read paths of images; classes are numbered in the order of the names of their folders."""
    folders = class_folders(source)
    names = tuple(folder.name for folder in folders)
    return folder_contents(
        source, folders, {name: (i, name) for i, name in enumerate(names)}, names
    )


def class_folders(source: DatasetSource) -> list[Path]:
    """Return the folders of the classes, sorted by name."""
    split = source.find_optional(source.split, f"ILSVRC2012_img_{source.split}") or source.path
    folders = sorted(f for f in split.iterdir() if f.is_dir()) if split.is_dir() else []
    # Folders of other splits are not classes: the requested split is missing.
    if not folders or {folder.name for folder in folders} <= set(SPLITS):
        raise source.missing_error(f"{source.split}/CLASS", "CLASS folders")
    return folders


def folder_contents(
    source: DatasetSource,
    folders: list[Path],
    known: Mapping[str, tuple[int | str, str]],
    names: tuple[str, ...],
) -> Contents:
    """Return the images of these folders with the label and the name of each folder."""

    def rows() -> Iterator[DatasetRow]:
        for folder in folders:
            for file in image_files(folder):
                at = source.id(f"{folder.name}/{file.stem}")
                read = partial(Sample, at, file, *known[folder.name])
                yield DatasetRow(at, Spot(file), read)

    return Contents(rows, names, sum(len(image_files(folder)) for folder in folders))
