"""Several streams: every view shows all of them, says whose scale it is, and breaks on none."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from io import BytesIO

import numpy
import pytest
import torch
from PIL import Image
from rich.text import Text

from whyformer.attribution import Attribution, views
from whyformer.render.colours import LIGHT
from whyformer.render.comparison import compare_samples
from whyformer.render.html.page import build_fragment
from whyformer.render.panels import SILENT
from whyformer.render.view_model import ONE_SCALE, OWN_SCALE

Make = Callable[..., Attribution]
EVERY = (
    "question",
    "regions",
    "matching",
    "detection",
    "translation",
    "continuation",
    "caption",
)


@pytest.fixture(params=EVERY)
def made(request: pytest.FixtureRequest) -> Attribution:
    """One of every kind of attribution with several streams."""
    return request.getfixturevalue(request.param)()


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "COLORFGBG", "FORCE_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


def terminal(attribution: Attribution, width: int = 80) -> str:
    return Text.from_ansi(views["terminal"].render(attribution, width=width)).plain


def tags(page: str, name: str) -> list[str]:
    return re.findall(rf"<{name}[^>]*>", page)


# -- every kind in every view ----------------------------------------------------------------


def test_every_stream_is_in_every_view(made: Attribution) -> None:
    page = views["html"].render(made)
    shown = terminal(made)
    for name in made.streams:
        assert f"<h3>{name}</h3>" in page
        assert re.search(rf"^{name}$", shown.replace("\r", ""), re.M)
    assert OWN_SCALE in page
    assert OWN_SCALE in shown.replace("\n", "")
    assert views["png"].render(made).startswith(b"\x89PNG")
    data = json.loads(views["json"].render(made))
    assert set(data["streams"]) == set(made.streams)


@pytest.mark.parametrize("width", [40, 80])
def test_nothing_is_wider_than_the_terminal(
    made: Attribution, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert max(map(len, terminal(made, width).split("\n"))) <= width
    monkeypatch.setenv("NO_COLOR", "1")
    assert max(map(len, terminal(made, width).split("\n"))) <= width


@pytest.mark.slow
def test_every_kind_can_be_compared_with_itself(made: Attribution) -> None:
    for name in views:
        assert views[name].render_comparison([made, made])


def test_the_page_lets_its_own_script_run_and_no_other(question: Make) -> None:
    page = views["html"].render(question())
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"; script-src 'sha256-{digest}'\"" in page
    assert "default-src 'none'" in page
    assert not re.search(r"https?:|@import|url\(|\bfetch\b|XMLHttp|innerHTML|eval\(", page)
    # A notebook has no policy to keep, and of the script what links the streams comes along.
    (linking,) = re.findall(r"<script>(.*?)</script>", build_fragment(question()).to_html(), re.S)
    assert linking.removesuffix("})();") in script


def test_samples_are_linked_each_and_the_script_is_there_once(question: Make) -> None:
    one = question()
    streams = {
        name: type(s)(
            name,
            s.scores.repeat(2, 1),
            s.mask.repeat(2, 1),
            s.tokens and s.tokens * 2,
            s.word_ids and s.word_ids * 2,
            s.grid,
            None if s.image is None else s.image.repeat(2, 1, 1, 1),
        )
        for name, s in one.streams.items()
    }
    two = Attribution(
        "gae",
        streams,
        "text",
        one.target.repeat(2),
        one.output.repeat(2),
        ("red", "blue"),
        maps={key: value.repeat(2, 1, 1) for key, value in one.maps.items()},
    )
    page = views["html"].render(two)
    assert page.count('class="links"') == 2
    assert page.count("<script>") == 1


# -- scales ----------------------------------------------------------------------------------


def test_the_caption_says_whose_scale_it_is(question: Make) -> None:
    together = question(conservation=torch.tensor([1.0]))
    for show in (views["html"].render, terminal):
        assert ONE_SCALE in show(together)
        assert OWN_SCALE not in show(together)
    assert page_scales(views["html"].render(together)) == ["+0.650 for"] * 2
    assert page_scales(views["html"].render(question())) == ["+0.650 for", "+0.478 for"]


def page_scales(page: str) -> list[str]:
    return re.findall(r"<span>(\S+ for)</span>", page)


def test_a_stream_without_scores_is_not_given_a_scale(caption: Make) -> None:
    page, shown = views["html"].render(caption()), terminal(caption())
    assert "all 0 for" in page
    # The image stands beside the answer, after the texts.
    assert [" hidden" in tag for tag in tags(page, 'p class="legend"')] == [True, False]
    assert "strongest in generated" not in page
    assert SILENT in shown.split("generated\n")[1]
    assert "strongest words" not in shown


# -- HTML ------------------------------------------------------------------------------------


def test_words_and_pictures_can_be_found_by_the_script(question: Make) -> None:
    page = views["html"].render(question())
    assert len(re.findall(r'data-panel="\d"', page.split("<script")[0])) == 2
    assert len(re.findall(r"<figure data-seen>", page)) == 1
    assert re.findall(r'<div class="stage" data-paint="(\w+)">', page) == ["overlay", "patches"]
    assert 'role="status"' in page


def test_an_image_without_pixels_is_painted_as_patches(question: Make) -> None:
    page = views["html"].render(question(size=None))
    assert re.findall(r'<div class="stage" data-paint="(\w+)">', page) == ["patches"]
    assert "<figure data-seen>" not in page


def test_the_output_is_a_line_of_its_own(translation: Make, continuation: Make) -> None:
    page = views["html"].render(translation())
    line = page.split('<p class="words said"')[1].split("</p>")[0]
    assert re.findall(r">([^<>\n]+)</span>", line) == [
        "dieser",
        "Film",
        "ist",
        "großartig",
        "&lt;/s&gt;",
    ]
    assert "words said" not in views["html"].render(continuation())


def test_the_matrix_is_a_table(translation: Make) -> None:
    page = views["html"].render(translation())
    table = page.split('<table class="matrix">')[1].split("</table>")[0]
    assert len(tags(table, 'th scope="col"')) == 5
    assert len(tags(table, 'th scope="row"')) == 5
    cells = re.findall(r'<td class="([pn]\d+)">([^<]+)</td>', table)
    assert len(cells) == 25
    assert cells[18] == ("p20", "+1.80")
    assert cells[11] == ("n4", "\N{MINUS SIGN}0.40")


def test_hostile_words_are_escaped_in_tables_and_output(translation: Make) -> None:
    made = translation()
    odd = "<img src=x onerror=alert(1)>"
    stream = made.streams["generated"]
    assert stream.tokens
    given = ("<pad>", odd, *stream.tokens[0][2:])
    streams = {
        **made.streams,
        "generated": type(stream)(
            "generated",
            stream.scores,
            stream.mask,
            (given,),
            stream.word_ids,
            said=((*given[1:], odd),),
        ),
    }
    hostile = Attribution(
        "gae", streams, "source", made.target, made.output, (odd,), maps=made.maps
    )
    page = views["html"].render(hostile)
    assert "<img" not in page
    assert page.count("&lt;img src=x") >= 6


def test_numbered_regions_can_be_pointed_at(regions: Make) -> None:
    page = views["html"].render(regions())
    assert page.count(">region ") >= 36
    assert "Point at a word or a region" in page


def test_every_query_is_there(detection: Make) -> None:
    page = views["html"].render(detection())
    assert "Point at a patch or a query" in page
    assert "red circle at query 3" in page
    assert page.index("<h3>image") < page.index("<h3>queries")


# -- terminal --------------------------------------------------------------------------------


def test_the_terminal_has_answer_text_and_mosaic_in_order(question: Make) -> None:
    shown = terminal(question())
    order = [shown.index(piece) for piece in ("why red?", "text\n", "colour", "image\n", "▀▀▀")]
    assert order == sorted(order)


def test_the_terminal_has_the_matrix(translation: Make) -> None:
    shown = terminal(translation())
    line = next(x for x in shown.split("\n") if x.startswith("großartig") and "+1.80" in x)
    assert line.split() == ["großartig", "+0.17", "+0.25", "+0.49", "+1.80", "+0.37"]
    assert "output by source" in shown


def test_a_matrix_too_wide_is_cut_and_says_so(translation: Make) -> None:
    shown = terminal(translation(), width=40)
    assert "only the strongest 3 of 5 columns" in shown
    assert "</s>" not in shown.split("output by source")[1].split("dieser")[0]


def test_tiny_values_fit_their_cells(translation: Make) -> None:
    made = translation()
    maps = {key: value * 1e-7 for key, value in made.maps.items()}
    shown = terminal(translation(maps=maps))
    assert "+1.80e\N{MINUS SIGN}07" in shown


# -- PNG -------------------------------------------------------------------------------------


def pixels(file: bytes) -> numpy.ndarray:
    with Image.open(BytesIO(file)) as picture:
        return numpy.asarray(picture.convert("RGB")).astype(int)


def test_text_is_above_the_overlay_in_one_picture(question: Make) -> None:
    drawn = pixels(views["png"].render(question()))
    red = abs(drawn - (230, 38, 26)).max(axis=2) <= 3  # the ball as the model saw it
    warm = abs(drawn - LIGHT.warm).max(axis=2) <= 2  # the strongest word, and bars
    assert red.any()
    assert warm.nonzero()[0].min() < red.nonzero()[0].min()


def test_the_matrix_is_drawn_with_its_strongest_cell(continuation: Make) -> None:
    flat = continuation(maps={})
    spot = torch.zeros(1, 3, 4)
    spot[0, 1, 0] = -1.0
    lit = continuation(maps={("generated", "text"): spot})

    def blue(attribution: Attribution) -> int:
        drawn = pixels(views["png"].render(attribution))
        return int((abs(drawn - LIGHT.cool).max(axis=2) <= 2).sum())

    assert blue(flat) == 0
    assert blue(lit) > 1000


def test_a_long_matrix_fits_the_page(translation: Make) -> None:
    made = translation()
    source = made.streams["source"]
    many = 300
    long = type(source)(
        "source",
        torch.rand(1, many),
        torch.ones(1, many, dtype=torch.bool),
        (tuple(f"word{i}" for i in range(many)),),
    )
    made = translation(maps={("generated", "source"): torch.rand(1, 6, many)})
    wide = Attribution(
        "gae",
        {**made.streams, "source": long},
        "source",
        made.target,
        made.output,
        made.labels,
        maps=made.maps,
    )
    assert (pixels(views["png"].render(wide))[:, -20:] == 255).all()


# -- comparisons -----------------------------------------------------------------------------


def test_methods_side_by_side_on_both_streams(question: Make) -> None:
    made = [
        question(method="gae"),
        question(method="lrp_ah_ln", conservation=torch.tensor([1.0])),
        question(method="rollout", maps={}),
    ]
    (sample,) = compare_samples(made)
    assert [[panel.name for panel in row] for row in sample.rows] == [["text"] * 3, ["image"] * 3]
    page = views["html"].render_comparison(made)
    assert "<h3>text</h3>" in page
    assert "<h3>image</h3>" in page
    assert len(tags(page, "img")) == 4  # what the model saw and an overlay for each
    assert "one scale for all streams" in page
    shown = Text.from_ansi(views["terminal"].render_comparison(made, width=100)).plain
    assert all(shown.count(a.method) >= 2 for a in made)
    assert shown.index("text\n") < shown.index("image\n")
    assert "one scale for all streams" in shown.replace("\n", " ").replace("  ", " ")
    assert views["png"].render_comparison(made).startswith(b"\x89PNG")


def test_regions_are_compared_under_their_name(regions: Make) -> None:
    page = views["html"].render_comparison([regions(), regions()])
    assert '<th scope="col">region</th>' in page


def test_one_stream_is_compared_as_ever(sentence: Make) -> None:
    page = views["html"].render_comparison([sentence(), sentence(method="gae")])
    assert "one scale for all streams" not in page
    assert "<h3>" not in page
    assert '<th scope="col">word</th>' in page


@pytest.mark.parametrize("kind", ["sentence", "image"])
def test_one_stream_has_nothing_of_this(kind: str, request: pytest.FixtureRequest) -> None:
    make = request.getfixturevalue(kind)
    made = make() if kind == "sentence" else make(torch.rand(4, 4))
    piece = build_fragment(made).to_html()
    assert not re.search(r"several|class=\"shows\"|<script|<canvas", piece)
    assert not re.search(r"its own colour scale|share one colour", piece + terminal(made))
