"""SVG and PDF: the same picture as vectors, and nothing of the user's in their code."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib
import pytest
import torch

from whyformer.attribution import Attribution, views
from whyformer.render.colours import LIGHT, css

Make = Callable[..., Attribution]
ODD = ["$x^2$", "<script>alert(1)</script>", "]]>", "&", "映画", "👩‍🚀", "שלום", "\x00", "a_b"]
SVG = "{http://www.w3.org/2000/svg}"


def parsed(file: bytes) -> ElementTree.Element:
    return ElementTree.fromstring(file.decode())


def test_svg_is_drawn_and_not_photographed(sentence: Make) -> None:
    file = views["svg"].render(sentence())
    tree = parsed(file)
    assert tree.tag == f"{SVG}svg"
    assert css(LIGHT.warm) in file.decode()
    assert css(LIGHT.cool) in file.decode()
    assert len(list(tree.iter(f"{SVG}path"))) > 20
    assert len(list(tree.iter(f"{SVG}image"))) == 1  # the colour bar
    assert len(list(tree.iter(f"{SVG}text"))) == 0  # letters are shapes: no font is needed


def test_svg_asks_for_nothing(image: Make) -> None:
    file = views["svg"].render(image(torch.rand(4, 4))).decode()
    links = re.findall(r'href="([^"]{0,20})', file)
    assert links
    assert all(link.startswith(("#", "data:image/png")) for link in links)
    assert "<script" not in file


@pytest.mark.parametrize("word", ODD)
def test_any_word_can_be_drawn(text: Make, word: str) -> None:
    made = text([(word, 1.0, 0), ("b", -1.0, 1)], label=word)
    tree = parsed(views["svg"].render(made))
    assert not list(tree.iter(f"{SVG}script"))


def test_pdf_takes_any_word(text: Make) -> None:
    made = text([(word, 1.0, i) for i, word in enumerate(ODD)], label="".join(ODD))
    assert views["pdf"].render(made).startswith(b"%PDF")


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_no_file_says_when_it_was_made(sentence: Make, form: str) -> None:
    file = views[form].render(sentence())
    assert not re.search(rb"CreationDate|<dc:date>|20\d\d-\d\d-\d\d", file)


@pytest.mark.parametrize("form", ["svg", "pdf"])
def test_settings_of_the_user_change_nothing(sentence: Make, form: str) -> None:
    before = views[form].render(sentence())
    odd = {
        "savefig.bbox": "tight",
        "svg.fonttype": "none",
        "pdf.fonttype": 3,
        "pdf.compression": 0,
        "savefig.dpi": 30,
        "font.family": "serif",
    }
    with matplotlib.rc_context(odd):
        assert views[form].render(sentence()) == before
        assert matplotlib.rcParams["svg.fonttype"] == "none", "and they stay as they are"


def test_pdf_holds_whole_fonts(sentence: Make) -> None:
    file = views["pdf"].render(sentence())
    assert b"/Type0" in file or b"/CIDFontType2" in file
    assert b"/Type3" not in file


def test_a_long_batch_is_no_trouble_for_vectors(
    sentence: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("whyformer.render.picture.canvas.TALLEST", 100)
    assert views["svg"].render(sentence()).startswith(b"<?xml")
