"""Notebooks: one sample or a few as HTML, a large batch is cut, with a note."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from io import BytesIO

import html5lib
import pytest
import torch
from PIL import Image

import whyformer as wf
from tests.render.sanitizing import github, keep_inline_styles, visible_text
from whyformer.attribution import Attribution, Stream
from whyformer.render.colours import LIGHT, contrast
from whyformer.render.html.inline_colours import AGAINST, FOR, STRONGEST_TINT
from whyformer.render.views.notebook import MOST, first_samples

Make = Callable[..., Attribution]


def batch(count: int, tokens: int = 6, word: str = "word", **more: object) -> Attribution:
    scores = torch.linspace(-1, 1, count * tokens).reshape(count, tokens)
    stream = Stream(
        "text",
        scores,
        torch.ones_like(scores).bool(),
        tuple(tuple(f"{word}{i}x{j}" for j in range(tokens)) for i in range(count)),
        (tuple(range(tokens)),) * count,
    )
    return Attribution(
        "gae",
        {"text": stream},
        "text",
        torch.zeros(count).long(),
        torch.arange(count).float(),
        tuple(f"label {i}" for i in range(count)),
        sinks={"bias": torch.arange(count).float()},
        maps={("text", "text"): torch.zeros(count, tokens, tokens)},
        **more,  # type: ignore[arg-type]
    )


def test_one_sample_and_a_few_are_shown_whole(sentence: Make) -> None:
    assert "gripping" in sentence()._repr_html_()
    shown = batch(MOST)._repr_html_()
    assert "The first" not in shown
    assert f"word{MOST - 1}x0" in shown


def test_a_large_batch_is_cut_and_says_so() -> None:
    shown = batch(500)._repr_html_()
    assert f"The first {MOST} of 500 samples." in shown
    assert f"word{MOST - 1}x5" in shown
    assert f"word{MOST}x" not in shown
    assert len(shown) < 1.1 * len(batch(MOST)._repr_html_()) + 1000, "no larger for being of more"


def test_words_are_words_and_no_elements() -> None:
    hostile = batch(MOST + 1, word="<img src=x onerror=alert(1)><script>")
    tree = html5lib.parse(hostile._repr_html_(), namespaceHTMLElements=False)
    assert not list(tree.iter("img"))
    assert not [script for script in tree.iter("script") if "alert" in (script.text or "")]


def test_the_first_are_what_they_were() -> None:
    many = batch(12, conservation=torch.ones(12))
    few = first_samples(many, 3)
    assert len(few) == 3
    for i in range(3):
        assert few[i].words() == many[i].words()
        assert few[i].to_dict() == many[i].to_dict()
    assert few.maps["text", "text"].shape == (3, 6, 6)
    assert first_samples(many, 12) is many


@pytest.mark.parametrize("label", ["x" * 1000, "\x1b[31mred", "line\nline"])
def test_repr_is_short_and_harmless(sentence: Make, label: str) -> None:
    shown = repr(sentence(label=label))
    assert len(shown) < 140
    assert shown.isprintable()


# -- without style sheets and scripts --------------------------------------------------------------


def words_of(tree: ElementTree.Element) -> dict[str, str]:
    """The style of every word that has a title, by word."""
    spans = [span for span in tree.iter("span") if span.get("title")]
    return {"".join(span.itertext()): span.get("style", "") for span in spans}


def test_inline_colours_stay_where_style_sheets_are_removed(sentence: Make) -> None:
    tree = keep_inline_styles(sentence()._repr_html_())
    styles = words_of(tree)
    warm, cool = "rgba(235,88,38,", "rgba(56,132,214,"
    assert warm in styles["gripping"]
    assert cool in styles["dull"]
    assert styles[","] == "", "a score of 0 has no colour"
    shown = visible_text(tree)
    assert FOR not in shown
    assert AGAINST not in shown


def test_squares_stand_for_colours_where_inline_styles_are_removed_too(sentence: Make) -> None:
    shown = visible_text(github(sentence()._repr_html_()))
    assert f"gripping{3 * FOR}" in shown
    assert f"dull{2 * AGAINST}" in shown
    assert f"gripping+0.800{2 * FOR}" in shown, "the bars of the table"
    assert "--p20" not in shown


def test_images_and_their_strongest_patches_stay(image: Make) -> None:
    tree = github(image(torch.tensor([[1.0, -0.5], [0.0, 0.1]]))._repr_html_())
    assert [img.get("width") for img in tree.iter("img")] == ["272"] * 3
    assert 8 * FOR in visible_text(tree)
    assert 4 * AGAINST in visible_text(tree)


def test_nothing_that_needs_a_script_is_promised_without_one(question: Make) -> None:
    shown = visible_text(github(question()._repr_html_()))
    assert "Point at" not in shown
    assert FOR in shown


def test_the_text_of_light_and_dark_pages_can_be_read_on_every_tint() -> None:
    pages = {(255, 255, 255): (33, 33, 33), (17, 17, 17): (222, 222, 222)}
    for page, text in pages.items():
        for end in (LIGHT.warm, LIGHT.cool):
            mixed = [
                round(STRONGEST_TINT * e + (1 - STRONGEST_TINT) * p)
                for e, p in zip(end, page, strict=True)
            ]
            assert contrast((mixed[0], mixed[1], mixed[2]), text) >= 4.5


def test_a_notebook_stores_a_picture_beside_the_html(sentence: Make) -> None:
    for shown in (sentence(), wf.Comparison((sentence(), sentence(method="gae")))):
        bundle = shown._repr_mimebundle_()
        assert set(bundle) == {"text/html", "image/png"}
        assert bundle["text/html"] == shown._repr_html_()
        assert bundle["image/png"].startswith(b"\x89PNG")
        assert set(shown._repr_mimebundle_(include={"image/png"})) == {"image/png"}
        assert set(shown._repr_mimebundle_(exclude={"image/png"})) == {"text/html"}


@pytest.mark.slow
def test_the_picture_of_a_large_batch_is_cut_too() -> None:
    cut, whole = batch(40)._repr_mimebundle_()["image/png"], batch(MOST).to_png()
    with Image.open(BytesIO(cut)) as one, Image.open(BytesIO(whole)) as other:
        assert one.size == other.size


def test_ipython_uses_both(sentence: Make) -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(sentence())
    assert {"text/plain", "text/html", "image/png"} <= set(data)
