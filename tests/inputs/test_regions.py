"""An image as a grid of regions, for models that read region features."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image

from whyformer.errors import InputError, ModelError
from whyformer.inputs.regions import RegionGrid

GRID = RegionGrid((4, 6), 2)


def picture(height: int = 4, width: int = 6) -> Image.Image:
    """An image in which no two values are the same."""
    values = numpy.arange(height * width * 3, dtype=numpy.uint8).reshape(height, width, 3)
    return Image.fromarray(values)


def test_a_feature_is_the_pixels_of_its_cell() -> None:
    features, boxes, pictures = GRID([picture()])
    assert (GRID.grid, GRID.width) == ((2, 3), 12)
    assert features.shape == (1, 6, 12)
    assert pictures.shape == (1, 3, 4, 6)
    pixels = numpy.asarray(picture(), dtype=numpy.float32) / 255 * 2 - 1
    for region in range(6):
        row, column = divmod(region, 3)
        cell = pixels[2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
        assert torch.allclose(features[0, region], torch.from_numpy(cell.reshape(-1)), atol=1e-6)
    assert boxes[0, 0].tolist() == pytest.approx([0, 0, 1 / 3, 1 / 2])
    assert boxes[0, 5].tolist() == pytest.approx([2 / 3, 1 / 2, 1, 1])


def test_boxes_go_behind_the_pixels() -> None:
    grid = RegionGrid((4, 6), 2, boxes_in_features=True)
    features, boxes, _ = grid([picture(), picture()])
    assert features.shape == (2, 6, grid.width) == (2, 6, 16)
    assert torch.equal(features[..., -4:], boxes)
    assert torch.equal(features[..., :-4], GRID([picture(), picture()])[0])


def test_the_whole_image_is_resized() -> None:
    grid = RegionGrid((8, 8), 4)
    tall = Image.new("RGB", (10, 40), (255, 0, 0))
    tall.paste((0, 0, 255), (0, 20, 10, 40))
    _, _, pictures = grid([tall])
    assert pictures.shape == (1, 3, 8, 8)
    assert pictures[0, :, 0, 0].tolist() == pytest.approx([1, 0, 0])
    assert pictures[0, :, -1, -1].tolist() == pytest.approx([0, 0, 1])


def test_files_and_other_modes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    picture().save(path)
    assert torch.equal(GRID([path])[0], GRID([picture()])[0])
    assert GRID([Image.new("L", (6, 4), 255)])[0].unique().tolist() == pytest.approx([1])


def test_it_is_stored_and_loaded(tmp_path: Path) -> None:
    for grid in (GRID, RegionGrid((96, 96), 16, boxes_in_features=True)):
        grid.save(tmp_path)
        assert RegionGrid.load(tmp_path) == grid


@pytest.mark.parametrize(("size", "cell"), [((5, 6), 2), ((4, 6), 0), ((0, 6), 2), ((4, 4), -2)])
def test_cells_that_do_not_fit(size: tuple[int, int], cell: int) -> None:
    with pytest.raises(InputError, match=rf"cells of {cell} pixels does not fit"):
        RegionGrid(size, cell)


def test_no_images() -> None:
    with pytest.raises(InputError, match="no image was given"):
        GRID([])


def test_pictures_of_another_size() -> None:
    with pytest.raises(InputError, match=r"shape \(1, 3, 6, 4\); expected \(batch, 3, 4, 6\)"):
        GRID.features(torch.zeros(1, 3, 6, 4))


def test_a_folder_without_regions(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"has no regions\.json"):
        RegionGrid.load(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '{"size": 4, "cell": 2, "boxes_in_features": false}', "null"],
)
def test_regions_that_cannot_be_read(tmp_path: Path, text: str) -> None:
    (tmp_path / "regions.json").write_text(text)
    with pytest.raises(ModelError, match="cannot be read"):
        RegionGrid.load(tmp_path)


def test_stored_cells_that_do_not_fit(tmp_path: Path) -> None:
    facts = '{"size": {"height": 5, "width": 4}, "cell": 2, "boxes_in_features": false}'
    (tmp_path / "regions.json").write_text(facts)
    with pytest.raises(ModelError, match="cannot be read"):
        RegionGrid.load(tmp_path)
