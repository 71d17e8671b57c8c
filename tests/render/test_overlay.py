"""Overlays: every patch on its own pixels."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from whyformer.attribution import Attribution
from whyformer.render.colour import LIGHT
from whyformer.render.overlay import (
    BARE,
    BRIGHTEST,
    DARKEST,
    beside,
    heat_map,
    overlaid,
    pictures,
    png,
    spread,
)
from whyformer.render.view_model import ImagePanel, read

Make = Callable[..., Attribution]

grids = st.tuples(st.integers(1, 9), st.integers(1, 9))


def panel_of(attribution: Attribution) -> ImagePanel:
    panel = read(attribution)[0].panels[0]
    assert isinstance(panel, ImagePanel)
    return panel


@given(grid=grids, patch=st.integers(1, 8), spot=st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_one_patch_lights_exactly_its_pixels(
    grid: tuple[int, int], patch: int, spot: tuple[int, int]
) -> None:
    row, column = spot[0] % grid[0], spot[1] % grid[1]
    patches = torch.zeros(grid, dtype=torch.float64)
    patches[row, column] = 1
    size = (grid[0] * patch, grid[1] * patch)
    expected = torch.zeros(size, dtype=torch.float64)
    expected[row * patch : (row + 1) * patch, column * patch : (column + 1) * patch] = 1
    assert torch.equal(spread(patches, size, "nearest"), expected)


@given(grid=grids, patch=st.integers(1, 8), spot=st.tuples(st.integers(0, 8), st.integers(0, 8)))
def test_the_smooth_peak_lies_in_its_patch(
    grid: tuple[int, int], patch: int, spot: tuple[int, int]
) -> None:
    row, column = spot[0] % grid[0], spot[1] % grid[1]
    patches = torch.zeros(grid, dtype=torch.float64)
    patches[row, column] = 1
    smooth = spread(patches, (grid[0] * patch, grid[1] * patch), "bilinear")
    y, x = divmod(int(smooth.argmax()), grid[1] * patch)
    assert (y // patch, x // patch) == (row, column)


def test_smoothing_is_centred_on_the_patch() -> None:
    patches = torch.zeros(3, 3, dtype=torch.float64)
    patches[1, 1] = 1
    smooth = spread(patches, (21, 21), "bilinear")
    assert torch.allclose(smooth, smooth.flip(0))
    assert torch.allclose(smooth, smooth.flip(1))
    assert float(smooth[10, 10]) == pytest.approx(1)


def test_pixels_that_no_patch_saw_stay_zero() -> None:
    # A 14-pixel patch convolution over 30 pixels makes 2 patches and never sees the last two.
    over = spread(torch.ones(2, 2, dtype=torch.float64), (30, 30), "nearest")
    assert over.shape == (30, 30)
    assert over.eq(1).all()
    over = spread(torch.ones(4, 4, dtype=torch.float64), (30, 31), "nearest")
    assert over[:28, :28].eq(1).all()
    assert over[28:].eq(0).all()
    assert over[:, 28:].eq(0).all()


def test_more_patches_than_pixels_still_fit() -> None:
    assert spread(torch.ones(4, 4, dtype=torch.float64), (2, 8), "nearest").shape == (2, 8)


def test_a_patch_of_nothing_shows_the_image_in_grey() -> None:
    image = torch.rand(3, 4, 4, dtype=torch.float64)
    shown = overlaid(image, torch.zeros(4, 4, dtype=torch.float64))
    assert torch.allclose(shown[..., 0], shown[..., 2])
    grey = 0.2126 * image[0] + 0.7152 * image[1] + 0.0722 * image[2]
    assert torch.allclose(shown[..., 0], DARKEST + (BRIGHTEST - DARKEST) * grey)


def test_for_turns_warm_and_against_turns_blue() -> None:
    image = torch.full((3, 1, 2), 0.5, dtype=torch.float64)
    shown = overlaid(image, torch.tensor([[1.0, -1.0]], dtype=torch.float64))
    assert shown[0, 0, 0] > shown[0, 0, 2]
    assert shown[0, 1, 0] < shown[0, 1, 2]


def test_what_there_is_to_see(image: Make) -> None:
    full = panel_of(image(torch.rand(4, 4), pixels=torch.rand(28, 28)))
    assert [caption for caption, _ in pictures(full)] == [
        "what the model saw",
        "overlay",
        "patches",
        "pixels, on a scale of their own",
    ]
    assert all(picture.shape == (28, 28, 3) for _, picture in pictures(full))
    assert torch.allclose(pictures(full)[2][1], heat_map(spread(full.shares, (28, 28), "nearest")))


def test_without_an_image_the_bare_grid_is_shown(image: Make) -> None:
    patches = torch.zeros(2, 3)
    patches[0, 1] = 5.0
    ((caption, picture),) = pictures(panel_of(image(patches, size=None)))
    assert caption == "patches"
    assert picture.shape == (2 * BARE, 3 * BARE, 3)
    warm = torch.tensor(LIGHT.warm) / 255
    assert torch.allclose(picture[0, BARE].float(), warm, atol=1e-3)


def test_side_by_side_shows_the_image_once(image: Make) -> None:
    panels = [panel_of(image(torch.rand(4, 4))) for _ in range(2)]
    assert [title for title, _ in beside(["a", "b"], panels)] == ["what the model saw", "a", "b"]


def test_png_is_the_picture_pixel_by_pixel() -> None:
    picture = torch.rand(5, 7, 3, dtype=torch.float64)
    with Image.open(BytesIO(png(picture))) as loaded:
        assert loaded.size == (7, 5)
        r, g, b = loaded.getpixel((6, 2))
    assert [r, g, b] == pytest.approx((picture[2, 6] * 255).round().tolist())
