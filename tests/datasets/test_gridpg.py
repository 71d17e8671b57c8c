"""Grids of four images: their cells, their classes, and which images are used."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
from PIL import Image

from whyformer.datasets import Dataset, open_dataset
from whyformer.errors import InputError, OptionError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Nine plain grey images of 40 x 30 pixels; the first three are of one class."""
    (tmp_path / "images").mkdir()
    lines = ["file,imagenet_index,wnid,name"]
    for i in range(9):
        label = max(0, i - 2)
        Image.new("RGB", (40, 30), (20 * i,) * 3).save(tmp_path / "images" / f"{i}.png")
        lines.append(f"{i}.png,{label},n0000000{label},class {label}")
    (tmp_path / "index.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def shades(sample_image: Image.Image) -> list[int]:
    """The shade in the middle of each cell, row by row."""
    pixels = numpy.asarray(sample_image)
    return [int(pixels[y, x, 0]) for y in (112, 336) for x in (112, 336)]


def grids(found: Dataset) -> list[tuple[str, ...]]:
    return list(dict.fromkeys(sample.extras["images"] for sample in found))


def test_four_samples_of_each_grid(folder: Path) -> None:
    samples = list(open_dataset(f"gridpg:{folder}"))
    assert [sample.id for sample in samples] == [f"val/{g}/{c}" for g in (0, 1) for c in range(4)]
    for i, sample in enumerate(samples):
        image = sample.extras["images"][i % 4]
        number = int(image.removeprefix("val/"))
        assert sample.inputs.size == (448, 448)
        assert shades(sample.inputs)[i % 4] == 20 * number
        assert sample.label == max(0, number - 2)
        assert sample.label_name == f"class {sample.label}"
        mask = sample.extras["mask"].read()
        assert mask.sum() == 224 * 224
        assert mask[224 * (i % 4 // 2), 224 * (i % 2)] == 1
        # The cell has one shade: nothing of its neighbours.
        cell = numpy.asarray(sample.inputs)[..., 0][mask == 1]
        assert set(cell.tolist()) == {20 * number}


def test_classes_differ_and_images_are_used_once(folder: Path) -> None:
    for draw in range(20):
        found = grids(open_dataset(f"gridpg:{folder},draw={draw}"))
        assert found
        used = [image for grid in found for image in grid]
        assert len(set(used)) == len(used)
        for grid in found:
            labels = {max(0, int(image.removeprefix("val/")) - 2) for image in grid}
            assert len(labels) == 4


def test_the_seed_decides(folder: Path) -> None:
    first, again, other = (
        grids(open_dataset(f"gridpg:{folder},draw={draw}")) for draw in (0, 0, 1)
    )
    assert first == again
    assert first != other
    with pytest.raises(OptionError, match="draw is 'x'"):
        open_dataset(f"gridpg:{folder},draw=x")


def test_only_these_images(folder: Path) -> None:
    some = {"val/0", "val/3", "val/4", "val/5", "val/8"}
    (grid,) = grids(open_dataset(f"gridpg:{folder}", only=some))
    assert set(grid) < some
    (folder / "sure.txt").write_text("\n".join(sorted(some)) + "\n")
    assert grids(open_dataset(f"gridpg:{folder},only=sure.txt")) == [grid]
    assert not list(open_dataset(f"gridpg:{folder}", only={"val/0", "val/1", "val/2", "val/3"}))
    with pytest.raises(InputError, match=r"the list of images .*none\.txt' cannot be read"):
        open_dataset(f"gridpg:{folder},only=none.txt")


def test_a_limit_draws_cells(folder: Path) -> None:
    assert len(list(open_dataset(f"gridpg:{folder}", limit=3, seed=0))) == 3
