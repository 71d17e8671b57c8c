"""Images of the user, one folder per class."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from whyformer.datasets import open_dataset
from whyformer.errors import InputError

Picture = Callable[..., Path]


@pytest.mark.parametrize("split", ["", "val/"])
def test_classes_are_numbered_by_name(picture: Picture, tmp_path: Path, split: str) -> None:
    files = [picture(f"{split}{name}") for name in ("cat/b.png", "cat/c.JPG", "dog/a.jpg")]
    (tmp_path / split / "cat" / "notes.txt").touch()
    found = open_dataset(f"image_folder:{tmp_path}")
    assert [(s.id, s.inputs, s.label, s.label_name) for s in found] == [
        ("val/cat/b", files[0], 0, "cat"),
        ("val/cat/c", files[1], 0, "cat"),
        ("val/dog/a", files[2], 1, "dog"),
    ]
    assert found.labels == ("cat", "dog")
    assert len(found) == 3


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="CLASS"):
        open_dataset(f"image_folder:{tmp_path}")
