"""Options of pictures: size, resolution, colours, special tokens, the original photo."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from whyformer.attribution import Attribution, views
from whyformer.errors import InputError, OptionError
from whyformer.render.photo import find_crop, read_photo

pytestmark = pytest.mark.slow

Make = Callable[..., Attribution]


def opened(content: bytes) -> Image.Image:
    return Image.open(BytesIO(content)).convert("RGB")


def colours_of(picture: Image.Image) -> set[Any]:
    found = picture.getcolors(picture.width * picture.height)
    assert found is not None
    return {colour for _, colour in found}


def test_size_and_resolution_are_kept(sentence: Make) -> None:
    made = sentence()
    content = made.to_png(size=3, dpi=100)
    picture = Image.open(BytesIO(content))
    assert picture.width == 300
    assert picture.info["dpi"] == pytest.approx((100, 100), abs=0.1)
    wide, usual = opened(made.to_png(dpi=100)), opened(made.to_png())
    assert usual.width == pytest.approx(2 * wide.width, abs=1)
    assert made.to_png() == made.to_png(), "the options of one picture do not stay"


def test_colours_are_those_of_the_map(sentence: Make) -> None:
    made = sentence()
    usual, other = colours_of(opened(made.to_png())), colours_of(opened(made.to_png(colours="bwr")))
    assert (235, 88, 38) in usual
    assert (235, 88, 38) not in other
    assert (255, 0, 0) in other


def test_special_tokens_can_be_left_out(sentence: Make) -> None:
    made = sentence()
    whole, few = opened(made.to_png()), opened(made.to_png(specials=False))
    assert few.height < whole.height
    for view in ("svg", "pdf"):
        assert made.render(view, specials=False) != made.render(view)
    both = views["png"].render_comparison([made, made], specials=False)
    assert opened(both).height < opened(views["png"].render_comparison([made, made])).height


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dpi": 0}, "dpi=0 is out of range"),
        ({"size": float("nan")}, "size=nan is out of range"),
        ({"size": True}, "size=True is out of range"),
        ({"colours": "nope"}, "there is no colour map 'nope'"),
        ({"colour": "bwr"}, "view 'png' has no option 'colour'"),
    ],
)
def test_bad_options_are_named(sentence: Make, options: Any, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        sentence().to_png(**options)


# -- photos --------------------------------------------------------------------------------------


@pytest.fixture
def photo() -> torch.Tensor:
    """A photo of 90 x 150 pixels: a slope of colours and a bright disc beside its middle."""
    y, x = torch.meshgrid(torch.linspace(0, 1, 90), torch.linspace(0, 1, 150), indexing="ij")
    slope = torch.stack([x, y, 1 - x])
    disc = (x - 0.55) ** 2 * 2.8 + (y - 0.4) ** 2 < 0.03
    return torch.where(disc, torch.ones(3, 1, 1), slope).double()


@pytest.mark.parametrize("crop", [(0, 0, 90, 150), (0, 30, 90, 90), (9, 39, 72, 72)])
def test_the_part_that_the_model_saw_is_found(
    photo: torch.Tensor, crop: tuple[int, int, int, int]
) -> None:
    top, left, height, width = crop
    part = photo[:, top : top + height, left : left + width]
    seen = torch.nn.functional.interpolate(part[None], (48, 48), mode="bilinear")[0]
    found = find_crop(photo, seen)
    assert all(abs(one - other) <= 2 for one, other in zip(found, crop, strict=True))


def test_the_overlay_lies_on_the_photo(image: Make, photo: torch.Tensor, tmp_path: Path) -> None:
    made = image(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), size=(48, 48))
    seen = torch.nn.functional.interpolate(photo[None, :, :, 30:120], (48, 48), mode="area")
    made.streams["image"].image.copy_(seen)  # type: ignore[union-attr]
    array = (photo.permute(1, 2, 0) * 255).round().byte().numpy()
    Image.fromarray(array).save(tmp_path / "photo.png")
    usual = made.to_png()
    for given in (photo, Image.fromarray(array), str(tmp_path / "photo.png"), [photo]):
        assert made.to_png(photo=given) != usual
    with pytest.raises(InputError, match="the photo does not look like what the model saw"):
        made.to_png(photo=1 - photo)
    with pytest.raises(InputError, match="there are 2 photos for 1 samples"):
        made.to_png(photo=[photo, photo])
    with pytest.raises(InputError, match="cannot be read"):
        made.to_png(photo=str(tmp_path / "none.png"))


def test_photos_are_for_images(sentence: Make, photo: torch.Tensor) -> None:
    with pytest.raises(InputError, match="photo= is for explanations of images"):
        sentence().to_png(photo=photo)
    with pytest.raises(InputError, match=r"tensor of shape \(90, 150\)"):
        read_photo(photo[0])
    assert max(read_photo(torch.rand(3, 3000, 20)).shape) == 1024


# -- what every view shows -----------------------------------------------------------------------


def test_every_view_shows_the_probability(sentence: Make) -> None:
    made = sentence(probability=torch.tensor([0.873]))
    for text in (made.to_html(), made._repr_html_(), made.to_terminal()):
        assert "87.3 %" in text
    assert made.to_png() != sentence().to_png()
    other = sentence(label="negative", probability=torch.tensor([0.00001]))
    for view in ("html", "terminal"):
        shown = views[view].render_comparison([made, other])
        assert "87.3 %" in shown
        assert "&lt; 0.1 %" in shown or "< 0.1 %" in shown


def test_special_tokens_do_not_flatten_the_words(sentence: Make) -> None:
    from whyformer.render.panels import strongest_rows
    from whyformer.render.view_model import read_samples

    (panel,) = read_samples(sentence())[0].panels
    rows = strongest_rows(panel.rows, 2)
    assert [(row.name, row.apart) for row in rows] == [
        ("gripping", False),
        ("dull", False),
        ("[SEP]", True),
        ("[CLS]", True),
    ]
    assert rows[0].length == 1, "the strongest word sets the scale"
    assert rows[2].beyond
    assert rows[2].length == 1
    assert 'class="apart"' in sentence().to_html()


def test_no_method_name_is_cut(sentence: Make) -> None:
    from whyformer.render.picture.canvas import Canvas, font

    canvas, face = Canvas(), font(8)
    name = "a_method_with_a_very_long_name_that_has_no_space and more"
    lines = canvas.lines(name, face, 60)
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")
    assert max(canvas.width(line, face) for line in lines) <= 60
    svg = views["svg"].render_comparison(
        [sentence(method=f"transformer_attribution_{i}") for i in range(9)]
    )
    assert "…".encode() not in svg
