"""Curves: their means and bands by hand, and drawings that everybody can read."""

from __future__ import annotations

import itertools
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.evaluation.conftest import known, row
from whyformer.errors import InputError
from whyformer.evaluation.curves import DARK, DASHES, LIGHT, Curves, curve_png, curves, look
from whyformer.evaluation.drawing import LINE, drawing, ticks
from whyformer.evaluation.results import Results
from whyformer.evaluation.summary import Bootstrap
from whyformer.metrics.bootstrap import interval
from whyformer.metrics.score import Score
from whyformer.render.colour import _TO_LAB, _TO_LMS, _linear, contrast
from whyformer.render.colour import DARK as DARK_PAGE
from whyformer.render.colour import LIGHT as LIGHT_PAGE

Make = Callable[..., Results]
STEPS = [0.0, 0.5, 1.0]


def made(by_method: dict[str, list[list[float]]]) -> Results:
    rows = [
        row(method, "auac", f"s{i}", sum(curve), curve=curve)
        for method, found in by_method.items()
        for i, curve in enumerate(found)
    ]
    return Results(rows, {"metrics": {"auac": known(steps=STEPS)}})


def found(results: Results) -> Curves:
    it = curves(results, "auac", "predicted")
    assert it is not None
    return it


def test_the_mean_curve_by_hand_and_its_band_step_by_step() -> None:
    data = [[0.0, 0.5, 1.0], [0.2, 0.7, 1.0], [0.1, 0.9, 1.0]]
    (line,) = found(made({"a": data})).lines
    assert line.mean == pytest.approx((0.1, 0.7, 1.0))
    # Every step's band is the interval of a score that has this step for its value.
    for step in range(3):
        wanted = interval(Score(torch.tensor([d[step] for d in data], dtype=torch.float64)))
        assert (line.low[step], line.high[step]) == pytest.approx(wanted, abs=1e-12)


def test_one_sample_has_no_band_and_a_curve_that_is_no_number_is_left_out() -> None:
    (line,) = found(made({"a": [[0.0, 0.5, 1.0]]})).lines
    assert line.mean == pytest.approx((0.0, 0.5, 1.0))
    assert all(math.isnan(v) for v in (*line.low, *line.high))
    nan = [math.nan, 0.5, 1.0]
    (line,) = found(made({"a": [nan, [0.0, 0.5, 1.0]]})).lines
    assert line.mean == pytest.approx((0.0, 0.5, 1.0))
    (line,) = found(made({"a": [nan]})).lines
    assert all(map(math.isnan, line.mean))


def test_a_metric_without_steps_has_no_curve(run: Make) -> None:
    assert curves(run(), "pointing_game", "predicted") is None
    assert curves(run(), "auac", "nobody") is None


# -- SVG -------------------------------------------------------------------------------------

NS = "{http://www.w3.org/2000/svg}"


def parsed(it: Curves) -> ElementTree.Element:
    svg = str(drawing(it, "x"))
    return ElementTree.fromstring(svg.replace("<svg ", f'<svg xmlns="{NS[1:-1]}" ', 1))


def test_the_drawing_has_every_line_where_its_numbers_are() -> None:
    it = found(made({"a": [[0.0, 0.5, 1.0]] * 2, "b": [[0.0, 1.0, 1.0]] * 2}))
    svg = parsed(it)
    lines = [g for g in svg.iter(f"{NS}g") if (g.get("class") or "").startswith("line")]
    paths = [g.find(f"{NS}path[@class='mean']") for g in lines]
    points = [
        [tuple(map(float, p.split())) for p in (path.get("d") or "")[1:].split("L")]
        for path in paths
        if path is not None
    ]
    (x0, y0), (x1, y1), (x2, y2) = points[0]
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y0 - y1 == pytest.approx(y1 - y2, abs=0.11)  # up is less in SVG
    assert points[1][1][1] == pytest.approx(y2)
    assert len([p for p in svg.iter(f"{NS}path") if p.get("class") == "band"]) == 2


def test_the_drawing_says_itself_in_words() -> None:
    svg = parsed(found(made({"a": [[0.0, 0.5, 1.0]] * 2})))
    title, desc = svg.find(f"{NS}title"), svg.find(f"{NS}desc")
    assert title is not None
    assert desc is not None
    assert svg.get("aria-labelledby") == title.get("id") == "x-title"
    assert svg.get("aria-describedby") == desc.get("id") == "x-desc"
    assert desc.text == "From step 0 to 1: a from 0.000 to 1.000."


@pytest.mark.parametrize("methods", [1, 3, 15, 40])
def test_labels_stand_beside_each_other_in_the_order_of_the_lines(methods: int) -> None:
    # All lines end at 1, where labels would cover each other.
    it = found(made({f"m{i}": [[0.0, i / 40, 1.0]] * 2 for i in range(methods)}))
    svg = parsed(it)
    labels = [g for g in svg.iter(f"{NS}g") if (g.get("class") or "").startswith("label")]
    texts = [t for g in labels if (t := g.find(f"{NS}text")) is not None]
    heights = [float(t.get("y") or 0) for t in texts]
    assert [t.text for t in texts] == [f"m{i}" for i in reversed(range(methods))]
    assert all(b - a >= LINE - 0.11 for a, b in itertools.pairwise(heights))
    assert min(heights) > 0
    assert max(heights) < float((svg.get("viewBox") or "").split()[3])
    assert (svg.get("class") == "curves few") == (methods <= 6)


def test_hostile_names_are_text() -> None:
    name = "</text><script>alert(1)</script>\"'&\x1b"
    svg = parsed(found(made({name: [[0.0, 0.5, 1.0]] * 2})))
    assert not [e for e in svg.iter() if "script" in e.tag]
    titles = [t.text for g in svg.iter(f"{NS}g") for t in g.findall(f"{NS}title")]
    assert titles == [name.replace("\x1b", "�")]


def test_flat_and_empty_curves_are_drawn() -> None:
    for data in ([[0.0] * 3] * 2, [[math.nan] * 3] * 2, [[5e-7] * 3] * 2, [[-3e5, 0.0, 3e5]]):
        assert "nan" not in re.sub(
            "<desc.*?</desc>", "", str(drawing(found(made({"a": data})), "x"))
        )


def test_ticks_are_round_and_within() -> None:
    assert ticks(0.0, 1.0) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1.0])
    assert ticks(-0.31, 0.27) == pytest.approx([-0.2, 0, 0.2])
    assert ticks(1200, 3400) == [1500, 2000, 2500, 3000]


# -- colours ---------------------------------------------------------------------------------

# Machado, Oliveira, Fernandes 2009, full severity.
SIGHTS = {
    "usual": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def rgb(colour: str) -> tuple[int, int, int]:
    r, g, b = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return r, g, b


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_any_two_colours_differ_for_everybody(colours: tuple[str, ...], sight: str) -> None:
    seen = torch.tensor(SIGHTS[sight], dtype=torch.float64)

    def lab(colour: str) -> torch.Tensor:
        linear = seen @ _linear(torch.tensor(rgb(colour), dtype=torch.float64) / 255)
        return _TO_LAB @ (_TO_LMS @ linear.clamp(0, 1)) ** (1 / 3)

    assert min(float((lab(a) - lab(b)).norm()) for a, b in itertools.combinations(colours, 2)) > 0.1


def test_lines_stand_out_from_their_page_and_from_each_other() -> None:
    assert min(contrast(rgb(c), LIGHT_PAGE.page) for c in LIGHT) >= 3
    assert min(contrast(rgb(c), DARK_PAGE.page) for c in DARK) >= 3
    assert len({look(i) for i in range(24)}) == len(LIGHT) * len(DASHES)


# -- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["png", "svg"])
def test_a_picture_for_the_docs_is_the_same_every_time(
    run: Make, tmp_path: Path, kind: str
) -> None:
    files = [tmp_path / f"{i}.{kind}" for i in range(2)]
    for file in files:
        curve_png(run(), "auac", "label", file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert files[0].read_bytes().startswith(b"\x89PNG" if kind == "png" else b"<?xml")


def test_names_in_a_picture_are_no_formulas(tmp_path: Path) -> None:
    results = made({"$\\frac{$ 漢 \x1b": [[0.0, 0.5, 1.0]] * 2, "_hidden": [[0.0, 0.1, 1.0]]})
    curve_png(results, "auac", "predicted", tmp_path / "x.png")
    curve_png(results, "auac", "predicted", tmp_path / "x.svg")


def test_what_cannot_be_written_is_refused(run: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no curve for target"):
        curve_png(run(), "pointing_game", "label", tmp_path / "x.png")
    for wrong in (tmp_path / "x.gif", tmp_path / "nowhere" / "x.png"):
        with pytest.raises(InputError, match=r"expected a \.png or \.svg"):
            curve_png(run(), "auac", "label", wrong)


def test_the_band_follows_what_is_asked(run: Make) -> None:
    narrow, wide = (
        curves(run(), "auac", "label", Bootstrap(level, 200, 0)) for level in (0.5, 0.99)
    )
    assert narrow is not None
    assert wide is not None
    one, other = narrow.lines[0], wide.lines[0]
    assert one.mean == other.mean
    assert other.low[2] < one.low[2] < one.high[2] < other.high[2]
