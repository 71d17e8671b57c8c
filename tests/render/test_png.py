"""PNG: a picture of the right colours, whatever the words are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from io import BytesIO

import matplotlib
import numpy
import pytest
import torch
from PIL import Image

from whyformer.attribution import Attribution, views
from whyformer.errors import InputError
from whyformer.render.colours import LIGHT
from whyformer.render.picture.canvas import DPI, WIDTH

Make = Callable[..., Attribution]


def pixels(file: bytes) -> numpy.ndarray:
    with Image.open(BytesIO(file)) as picture:
        return numpy.asarray(picture.convert("RGB")).astype(int)


def holds(file: bytes, colour: tuple[int, int, int]) -> int:
    """How many pixels have that colour, give or take rounding."""
    return int((abs(pixels(file) - colour).max(axis=2) <= 2).sum())


def test_a_picture_of_the_right_size_and_colours(sentence: Make) -> None:
    file = views["png"].render(sentence())
    assert pixels(file).shape[1] == int(WIDTH / 72 * DPI)
    assert holds(file, LIGHT.warm) > 1000
    assert holds(file, LIGHT.cool) > 200  # the bar of 'dull'
    assert holds(file, LIGHT.page) > pixels(file).size / 6


def test_a_method_without_negatives_has_no_blue(text: Make) -> None:
    file = views["png"].render(text([("a", 1.0, 0), ("b", 0.5, 1)]))
    assert holds(file, LIGHT.cool) == 0


def test_long_texts_wrap(text: Make) -> None:
    short = pixels(views["png"].render(text([("word", 0.1, i) for i in range(5)])))
    long = pixels(views["png"].render(text([("word", 0.1, i) for i in range(200)])))
    assert long.shape[1] == short.shape[1]
    assert long.shape[0] > short.shape[0] + 200
    right_margin = long[:, -20:]
    assert (right_margin == 255).all()


def test_a_word_wider_than_the_page_is_cut(text: Make) -> None:
    file = views["png"].render(text([("x" * 500, 1.0, 0)]))
    assert (pixels(file)[:, -20:] == 255).all()


@pytest.mark.parametrize(
    "word", ["$x^2$", "$", "\\frac", "映画", "👩‍🚀", "שלום", "\x00", "\n", "a_b", "%", "{", "<b>"]
)
def test_any_word_can_be_drawn(text: Make, word: str) -> None:
    assert views["png"].render(text([(word, 1.0, 0)], label=word)).startswith(b"\x89PNG")


def test_a_lit_patch_is_drawn_in_its_place(image: Make) -> None:
    patches = torch.zeros(2, 2)
    patches[0, 1] = 1.0
    drawn = pixels(views["png"].render(image(patches, size=None)))
    neutral = abs(drawn - LIGHT.neutral).max(axis=2) <= 2
    rows = (neutral.sum(axis=1) > 100).nonzero()[0]
    top, bottom, left = rows.min(), rows.max(), neutral[rows].nonzero()[1].min()
    half = (bottom - top) // 2
    grid = drawn[top : bottom + 1, left : left + 2 * half]
    inside = slice(5, half - 5), slice(half + 5, 2 * half - 5)  # clear of the seams
    for row in (0, 1):
        for column in (0, 1):
            expected = LIGHT.warm if (row, column) == (0, 1) else LIGHT.neutral
            assert (abs(grid[inside[row], inside[column]] - expected) <= 2).all()


def test_comparisons(sentence: Make, image: Make) -> None:
    words = [sentence(method=m) for m in ("lrp_ah_ln", "gae") * 5]
    assert views["png"].render_comparison(words).startswith(b"\x89PNG")
    overlays = [image(torch.rand(4, 4), method=m) for m in ("gae", "rollout") * 4]
    assert views["png"].render_comparison(overlays).startswith(b"\x89PNG")


def test_a_picture_too_tall_is_refused(sentence: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyformer.render.picture.canvas.TALLEST", 100)
    with pytest.raises(InputError, match=r"pixels tall.*to_html"):
        views["png"].render(sentence())


def test_settings_of_the_user_change_nothing(sentence: Make) -> None:
    before = views["png"].render(sentence())
    odd = {
        "savefig.bbox": "tight",
        "figure.autolayout": True,
        "image.origin": "lower",
        "savefig.dpi": 30,
        "font.family": "serif",
        "text.usetex": True,
    }
    with matplotlib.rc_context(odd):
        assert views["png"].render(sentence()) == before


@pytest.mark.slow
def test_pyplot_stays_out() -> None:
    script = (
        "import sys, torch\n"
        "from whyformer.attribution import Attribution, Stream\n"
        "scores = torch.ones(1, 4)\n"
        "stream = Stream('image', scores, scores > 0, grid=(2, 2))\n"
        "one = torch.ones(1)\n"
        "a = Attribution('gae', {'image': stream}, 'image', one, one, ('x',))\n"
        "a.to_json(), a.to_terminal(), a.to_html()\n"
        "assert 'matplotlib' not in sys.modules\n"
        "a.to_png()\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
