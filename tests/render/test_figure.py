"""Figures: drawn right, written in the format that the name asks for, refused with a reason."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image

from whyformer.attribution import Attribution
from whyformer.errors import InputError
from whyformer.render.colours import LIGHT
from whyformer.render.picture.figure import figure

pytestmark = pytest.mark.slow

Make = Callable[..., Attribution]


def pixels(file: bytes) -> numpy.ndarray:
    with Image.open(BytesIO(file)) as picture:
        return numpy.asarray(picture.convert("RGB")).astype(int)


def holds(file: bytes, colour: tuple[int, int, int]) -> int:
    return int((abs(pixels(file) - colour).max(axis=2) <= 2).sum())


def test_a_name_says_the_format(sentence: Make, tmp_path: Path) -> None:
    picture = figure([[sentence()], [sentence(method="gae")]])
    for name, start in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml"), ("a.pdf", b"%PDF")):
        picture.save(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(start)
    assert picture._repr_png_() == picture.file() == (tmp_path / "a.png").read_bytes()


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.svg.gz"])
def test_another_format_is_refused(sentence: Make, tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"End it with \.png, \.svg, \.pdf"):
        figure(sentence()).save(tmp_path / name)
    with pytest.raises(InputError, match="no folder"):
        figure(sentence()).save(tmp_path / "nowhere" / "a.png")


def test_the_same_cells_are_the_same_bytes(sentence: Make) -> None:
    for form in ("png", "svg", "pdf"):
        assert figure(sentence()).file(form) == figure(sentence()).file(form)  # type: ignore[arg-type]


def test_weak_cells_are_pale_on_a_shared_scale(image: Make) -> None:
    strong = image(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), size=None)
    weak = image(torch.tensor([[0.1, 0.0], [0.0, 0.0]]), size=None)
    shared, own = (
        holds(figure([strong, weak], scale=s).file(), LIGHT.warm) for s in ("method", "cell")
    )
    assert own > 1.8 * shared > 0


def test_rows_are_drawn_below_each_other_and_columns_beside(image: Make) -> None:
    cells = [image(torch.eye(2), method=m) for m in ("gae", "rollout")]
    high = pixels(figure([[cell] for cell in cells]).file())
    wide = pixels(figure([cells]).file())
    assert high.shape[0] > wide.shape[0]
    assert high.shape[1] < wide.shape[1]


def test_blank_cells_stay_blank(sentence: Make) -> None:
    full = figure([[sentence(), sentence()]]).file()
    half = figure([[sentence(), None]]).file()
    assert holds(half, LIGHT.warm) < holds(full, LIGHT.warm)


def test_subwords(sentence: Make) -> None:
    assert figure(sentence(), subwords=True).file() != figure(sentence()).file()
    assert figure([[sentence(), None]], subwords=True).file()


@pytest.mark.parametrize(
    "kind",
    ["question", "regions", "matching", "detection", "translation", "continuation", "caption"],
)
def test_every_kind_of_input_can_be_drawn(kind: str, request: pytest.FixtureRequest) -> None:
    made = request.getfixturevalue(kind)()
    file = figure([[made], [made]]).file()
    page = pixels(file)
    assert (page[:, -10:] == 255).all(), "nothing runs off the page"
    assert holds(file, LIGHT.warm) > 0


def test_long_titles_and_words_stay_on_the_page(text: Make) -> None:
    made = text([("x" * 300, 1.0, 0), ("y", -1.0, 1)])
    file = figure([[made] * 3], columns=["title " * 30] * 3, rows=["row " * 50]).file()
    page = pixels(file)
    assert (page[:, -10:] == 255).all()
    assert (page[:, :10] == 255).all()
