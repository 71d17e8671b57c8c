"""HTML: escaped, self-contained, legible, and true to the scores."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html.parser import HTMLParser
from io import BytesIO

import pytest
import torch
from PIL import Image

from whyformer.attribution import Attribution, views
from whyformer.render.colours import STEPS
from whyformer.render.html.page import build_fragment

Make = Callable[..., Attribution]
HOSTILE = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>&amp;{{ 7*7 }}"


class Page(HTMLParser):
    """Every tag with its attributes, and every piece of text, as a browser would read them."""

    VOID = frozenset({"meta", "img", "br", "link"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, f"left open: {self.open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not (self.open and self.open[-1] in ("style", "script")):
            self.text.append(data)

    def with_tag(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def words(self) -> list[dict[str, str | None]]:
        return [a for a in self.with_tag("span") if "word" in (a.get("class") or "").split()]

    @property
    def scripts(self) -> list[str | None]:
        return [a.get("type") for a in self.with_tag("script")]


def test_user_text_is_escaped_everywhere(text: Make) -> None:
    attribution = text(
        [(HOSTILE, 1.0, 0), ("ok", -1.0, 1)],
        label=HOSTILE,
        provenance={"model": HOSTILE, "notes": [HOSTILE]},
        options={"name": HOSTILE},
        sinks={HOSTILE: torch.tensor([1.0])},
        conservation=torch.tensor([1.0]),
    )
    for page in (
        views["html"].render(attribution),
        build_fragment(attribution).to_html(),
        views["html"].render_comparison([attribution, attribution]),
    ):
        read = Page(page)
        assert not {"img", "iframe", "a"} & {tag for tag, _ in read.tags}
        assert read.scripts.count(None) == (0 if "cell" in page[:40] else 1)
        assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)
        assert HOSTILE in "".join(read.text)
        assert "49" not in "".join(read.text)
    page = views["html"].render(attribution)
    assert any(HOSTILE in (word["title"] or "") for word in Page(page).words())
    assert page.count("<style>") == 1


def test_the_page_asks_nobody_for_anything(sentence: Make, image: Make) -> None:
    for attribution in (sentence(), image(torch.rand(4, 4), pixels=torch.rand(28, 28))):
        page = views["html"].render(attribution)
        read = Page(page)
        policy = next(a for a in read.with_tag("meta") if a.get("http-equiv"))
        (script,) = re.findall(r"<script>(.*?)</script>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert policy["content"] == (
            "default-src 'none'; img-src data:; style-src 'unsafe-inline';"
            f" script-src 'sha256-{digest}'"
        )
        sources = [a[key] for _, a in read.tags for key in ("src", "href") if key in a]
        assert all((source or "").startswith("data:image/png;base64,") for source in sources)
        assert not re.search(r"https?:|@import|url\(|\bfetch\b|XMLHttp|innerHTML|eval\(", page)


def test_the_page_tells_its_language_and_title(sentence: Make) -> None:
    read = Page(views["html"].render(sentence()))
    assert read.with_tag("html") == [{"lang": "en"}]
    assert "Why positive?" in read.text


def test_colours_follow_sign_and_strength(sentence: Make) -> None:
    words = Page(build_fragment(sentence()).to_html()).words()
    classes = [
        set((w["class"] or "").split()) & {f"{s}{n}" for s in "pn" for n in range(99)}
        for w in words
    ]
    #                 [CLS]    gripping    ,       yet     dull     [SEP]
    assert classes == [{"p2"}, {"p20"}, {"p0"}, {"n1"}, {"n10"}, {"p20"}]
    assert "beyond" in (words[-1]["class"] or "")
    assert "special" in (words[0]["class"] or "")
    assert words[1]["title"] == "gripping: +0.800"


def test_every_class_has_a_colour_in_both_themes(sentence: Make) -> None:
    page = views["html"].render(sentence())
    for s in range(-STEPS, STEPS + 1):
        name = f"n{-s}" if s < 0 else f"p{s}"
        assert len(re.findall(rf"--{name}:#[0-9a-f]{{6}}", page)) >= 2
        rule = f"background:var(--{name})!important;color:var(--i{name})!important"
        assert f".whyformer .{name}{{{rule}}}" in page
    assert "prefers-color-scheme:dark" in page


def test_a_method_without_negatives_has_only_the_warm_half(text: Make) -> None:
    page = Page(views["html"].render(text([("a", 1.0, 0), ("b", 0.2, 1)])))
    scales = [a["class"] or "" for a in page.with_tag("span") if "scale" in (a.get("class") or "")]
    assert ["warm" in s for s in scales] == [True]
    assert "against" not in "".join(page.text)


def test_everything_is_said(sentence: Make) -> None:
    attribution = sentence(
        conservation=torch.tensor([0.83]), sinks={"biases": torch.tensor([0.31])}
    )
    visible_text = " ".join(Page(views["html"].render(attribution)).text)
    for piece in (
        "positive",
        "+2.50",
        "lrp_ah_ln",
        "tiny",
        "83 %",
        "biases",
        "+0.310",
        "[SEP] (+4.000)",
    ):
        assert piece in visible_text


def test_every_sample_is_shown(sentence: Make) -> None:
    one = sentence()
    stream = one.streams["text"]
    two = Attribution(
        method="gae",
        streams={
            "text": type(stream)(
                "text",
                stream.scores.repeat(2, 1),
                stream.mask.repeat(2, 1),
                stream.tokens and stream.tokens * 2,
                stream.word_ids and stream.word_ids * 2,
            )
        },
        main="text",
        target=torch.tensor([0, 1]),
        output=torch.tensor([1.0, 2.0]),
        labels=("first", "second"),
    )
    visible_text = " ".join(Page(views["html"].render(two)).text)
    assert visible_text.index("first") < visible_text.index("second")


def test_pictures_are_inside_and_of_the_size_the_model_saw(image: Make) -> None:
    read = Page(views["html"].render(image(torch.rand(4, 6), size=(28, 42))))
    pictures = read.with_tag("img")
    assert len(pictures) == 3
    for picture in pictures:
        assert picture["alt"]
        data = base64.b64decode((picture["src"] or "").partition(",")[2])
        with Image.open(BytesIO(data)) as loaded:
            assert loaded.size == (42, 28)


def test_a_fragment_is_no_page(sentence: Make) -> None:
    fragment = sentence()._repr_html_()
    tags = {tag for tag, _ in Page(fragment).tags}
    assert not tags & {"html", "head", "body", "meta", "title"}
    assert fragment.startswith('<div class="whyformer cell">')


def test_a_comparison_has_a_column_per_method(sentence: Make) -> None:
    page = views["html"].render_comparison([sentence(), sentence(method="gae")])
    read = Page(page)
    visible_text = "".join(read.text)
    assert "lrp_ah_ln" in visible_text
    assert "gae" in visible_text
    cells = [a for a in read.with_tag("td") if re.search(r"\b[pn]\d", a.get("class") or "")]
    assert len(cells) == 2 * 6


def test_a_comparison_of_images_is_a_row_of_overlays(image: Make) -> None:
    made = [image(torch.rand(4, 4), method=m) for m in ("gae", "rollout", "random")]
    assert len(Page(views["html"].render_comparison(made)).with_tag("img")) == 4


@pytest.mark.parametrize("scores", [[0.0, 0.0], [1e-30, -1e-30], [1e30, 1.0]])
def test_odd_scores_still_make_a_page(text: Make, scores: list[float]) -> None:
    Page(views["html"].render(text([("a", scores[0], 0), ("b", scores[1], 1)])))
