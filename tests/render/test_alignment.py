"""Overlays lie on the pixels that the model saw, whatever its processor cut off."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import numpy
import pytest
import torch
from PIL import Image

import whyformer as wf
from whyformer.attribution import Attribution, views
from whyformer.models.families import families
from whyformer.render.colours import LIGHT
from whyformer.render.overlay import OVERLAY, PATCHES, SEEN, panel_pictures
from whyformer.render.panels import ImagePanel
from whyformer.render.picture.canvas import DPI, MARGIN, WIDTH
from whyformer.render.view_model import read_samples

PATCH, GRID, KEPT, SHORT = 4, 6, 24, 32  # pixels, patches, pixels of the crop and before it
ZOOM = 1.25  # of the original, compared with what the processor makes of it
LIT = [(0, 0), (0, 5), (2, 3), (5, 0), (5, 5)]
SIZES = [(40, 40), (60, 40), (40, 60), (85, 40)]  # (width, height)


@pytest.fixture(scope="module")
def deit() -> Any:
    """A DeiT of random weights in which a black patch is 0, and so can have no relevance."""
    builder = families["deit"].tiny
    assert builder is not None
    model: Any = builder(image_size=KEPT, patch_size=PATCH)
    with torch.no_grad():
        model.deit.embeddings.patch_embeddings.projection.bias.zero_()
        model.deit.embeddings.position_embeddings.zero_()
    return model


@pytest.fixture(scope="module")
def processor() -> Any:
    """Resizes the shorter side and cuts out the centre, as for ImageNet; no pixel is blended."""
    from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil

    return DeiTImageProcessorPil(
        size={"shortest_edge": SHORT},
        crop_size={"height": KEPT, "width": KEPT},
        resample=Image.Resampling.NEAREST,
        do_normalize=False,
    )


def lit(size: tuple[int, int], row: int, column: int) -> Image.Image:
    """A black image, white where the model's crop will have the patch."""
    scaled = [round(side / ZOOM) for side in size]
    left, top = ((side - KEPT) // 2 for side in scaled)
    corner = (left + PATCH * column, top + PATCH * row)
    box = tuple(round(ZOOM * at) for at in (*corner, *(at + PATCH for at in corner)))
    image = Image.new("RGB", size)
    image.paste((255, 255, 255), box)  # type: ignore[arg-type]
    return image


def panel_of(attribution: Attribution) -> ImagePanel:
    panel = read_samples(attribution)[0].panels[0]
    assert isinstance(panel, ImagePanel)
    return panel


def extent(marked: numpy.ndarray) -> tuple[int, ...]:
    """(top, bottom, left, right) of what is marked."""
    rows, columns = marked.nonzero()
    return int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "how", [{"method": "gradient_x_input"}, {"method": "lrp_ah_ln", "activations": "identity"}]
)
def test_the_peak_is_on_the_lit_patch(
    deit: Any, processor: Any, size: tuple[int, int], how: dict[str, Any]
) -> None:
    images = [lit(size, row, column) for row, column in LIT]
    explained = wf.explain(images, deit, processor=processor, target=0, **how)
    for one, (row, column) in zip(explained, LIT, strict=True):
        panel = panel_of(one)
        # One patch has all there is, and the picture that is shown is white exactly there.
        assert [tuple(place) for place in panel.patches.nonzero().tolist()] == [(row, column)]
        assert panel.image is not None
        expected = (PATCH * row, PATCH * row + 3, PATCH * column, PATCH * column + 3)
        assert extent(panel.image[0].numpy() > 0.5) == expected
        drawn = dict(panel_pictures(panel))
        bare = (drawn[PATCHES] - torch.tensor(LIGHT.neutral) / 255).abs().amax(2) > 0.02
        assert extent(bare.numpy()) == expected
        overlay = drawn[OVERLAY]
        tint = (overlay[..., 0] - overlay[..., 2]).abs()
        y, x = divmod(int(tint.argmax()), KEPT)
        assert (y // PATCH, x // PATCH) == (row, column)
        assert drawn[SEEN].shape == overlay.shape == drawn[PATCHES].shape


@pytest.mark.parametrize("size", SIZES[:2])
def test_the_file_has_them_in_the_same_place(
    deit: Any, processor: Any, size: tuple[int, int]
) -> None:
    explained = wf.explain(
        lit(size, 2, 4), deit, processor=processor, method="gradient_x_input", target=0
    )
    with Image.open(BytesIO(views["png"].render(explained))) as file:
        page = numpy.asarray(file.convert("RGB")).astype(int)
    wide = (WIDTH - 2 * MARGIN - 20) / 3  # three pictures and two gaps of 10
    starts = [round((MARGIN + i * (wide + 10)) * DPI / 72) for i in range(3)]
    long = round(wide * DPI / 72)
    dark = (page[:, starts[0] : starts[0] + long].max(2) < 5).sum(1) > long / 2
    top = int(dark.nonzero()[0].min())
    seen, _, bare = (page[top : top + long, x : x + long] for x in starts)
    white = extent(seen[3:-3, 3:-3].min(2) > 250)
    painted = extent(abs(bare[3:-3, 3:-3] - LIGHT.neutral).max(2) > 5)
    assert numpy.allclose(white, painted, atol=2)
    cell = long / GRID
    assert numpy.allclose(white, (2 * cell, 3 * cell, 4 * cell, 5 * cell), atol=5)


@pytest.mark.parametrize("size", [(28, 28), (84, 56)])
def test_the_bundled_model_looks_where_the_light_is(size: tuple[int, int]) -> None:
    """A trained model need not, but mostly does; a shifted or turned grid never would."""
    wide, high = size[0] // 7, size[1] // 7
    images = []
    for place in range(49):
        row, column = divmod(place, 7)
        image = Image.new("L", size)
        image.paste(255, (column * wide, row * high, (column + 1) * wide, (row + 1) * high))
        images.append(image)
    explained = wf.explain(images, method="gae", model="mnist")
    stream = explained.streams["image"]
    assert stream.image is not None
    assert stream.image.shape == (49, 3, 28, 28)  # the model's size, not that of the file
    light = stream.image.mean(1).unflatten(1, (7, 4)).unflatten(3, (7, 4)).mean((2, 4))
    assert torch.equal(light.flatten(1).argmax(1), torch.arange(49))
    peaks = stream.score_map.flatten(1).argmax(1)
    hits = (peaks == torch.arange(49)).float().mean()
    turned = (peaks == torch.arange(49).reshape(7, 7).T.flatten()).float().mean()
    beside = (peaks == torch.arange(49).roll(1)).float().mean()
    assert hits > 0.7
    assert max(turned, beside) < 0.3
