"""Text that would rather be markup: a browser's parser finds the same elements as without it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any
from xml.etree.ElementTree import Element

import html5lib
import pytest
import torch

from whyformer.attribution import Attribution, Layer, Stream, views
from whyformer.render.html.page import build_fragment
from whyformer.render.signs import visible

Make = Callable[..., Attribution]
HOSTILE = (
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "</style><style>*{display:none}</style>",
    "\"'><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</textarea></title><svg onload=alert(1)>",
    "<bdi dir=rtl></p></div></section>",
    "&lt;b&gt;&amp;&#60;b&#62;",
    "{{ 7*7 }}{% raw %}",
    "javascript:alert(1)",
    "]]>\u2028\u2029\u202e\x00\x1b[31m",
    "مرحبا שלום",
    "👩\u200d🚀🏳️\u200d🌈",
    "\ud800",
)


class Parsed:
    """A page as a browser would find it."""

    def __init__(self, page: str) -> None:
        self.tree = html5lib.HTMLParser(namespaceHTMLElements=False).parse(page)

    @property
    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every element with the names of its attributes, in order."""
        found = (e for e in self.tree.iter() if isinstance(e.tag, str))
        return [(str(e.tag), tuple(sorted(e.attrib))) for e in found]

    @property
    def text(self) -> str:
        """What a reader sees: all text that is not a script's or a style's."""

        def walk(element: Element) -> Iterator[str]:
            if element.tag not in ("script", "style"):
                yield element.text or ""
                for child in element:
                    yield from walk(child)
                    yield child.tail or ""

        return "".join(walk(self.tree))

    @property
    def data(self) -> list[str]:
        """The text of every block of data."""
        scripts = self.tree.iter("script")
        return [e.text or "" for e in scripts if e.get("type") == "application/json"]


def everywhere(make: Make, word: str) -> dict[str, str]:
    """Every kind of page, with the word wherever a user's text can be."""
    facts: dict[str, Any] = {
        "label": word,
        "method": word,
        "provenance": {"model": word, "notes": [word, "plain"]},
        "options": {"name": word},
        "conservation": torch.tensor([0.5]),
        "sinks": {word: torch.tensor([1.0])},
        "layers": (Layer(torch.rand(1, 2, 9, 9), asking="text", answering="text"),),
    }
    tokens = ("[CLS]", word, "col", word, "is", "the", word, "?", "[SEP]")
    made = make(tokens=tokens, **facts)
    alone = dataclasses.replace(made, streams={"text": made.streams["text"]}, maps={})
    html = views["html"]
    return {
        "page": html.render(made),
        "one stream": html.render(alone),
        "piece": build_fragment(made).to_html(),
        "comparison": html.render_comparison([made, made]),
        "named": html.render_comparison({word: alone, "other": alone}),
    }


_harmless: dict[str, Parsed] = {}


@pytest.fixture
def harmless(question: Make) -> dict[str, Parsed]:
    """The pages without anything in them that would rather be markup, parsed once."""
    if not _harmless:
        _harmless.update({k: Parsed(v) for k, v in everywhere(question, "harmless").items()})
    return _harmless


@pytest.mark.parametrize("word", HOSTILE)
def test_what_comes_from_the_input_is_text(
    question: Make, harmless: dict[str, Parsed], word: str
) -> None:
    for name, page in everywhere(question, word).items():
        page.encode("utf-8")
        parsed = Parsed(page)
        assert parsed.shape == harmless[name].shape, name
        assert visible(word) in parsed.text, name
        assert len(parsed.data) == len(harmless[name].data) > 0, name
        for text in parsed.data:
            assert not set("<>&\u2028\u2029") & set(text)
            json.loads(text)


def test_the_check_can_fail(question: Make, harmless: dict[str, Parsed]) -> None:
    page = everywhere(question, "harmless")["page"]
    broken = page.replace(">harmless</span>", "><img src=x></span>", 1)
    assert broken != page
    assert Parsed(broken).shape != harmless["page"].shape


def test_the_copy_has_the_words_as_they_were(question: Make) -> None:
    word = HOSTILE[0]
    data = json.loads(Parsed(everywhere(question, word)["page"]).data[-1])
    assert data["labels"] == [word]
    assert data["streams"]["text"]["tokens"][0][1] == word


def test_every_word_is_a_direction_of_its_own(harmless: dict[str, Parsed]) -> None:
    for parsed in harmless.values():
        spans = parsed.tree.iter("span")
        words = [e for e in spans if "word" in (e.get("class") or "").split()]
        assert words
        assert all(word.get("dir") == "auto" for word in words)


@pytest.mark.parametrize(
    ("tokens", "way"),
    [
        (("שלום", "world"), "rtl"),
        (("hello", "שלום"), "ltr"),
        (("1", "!", "مرحبا"), "rtl"),
        (("1",), "ltr"),
    ],
)
def test_a_text_runs_as_its_first_letter_does(tokens: tuple[str, ...], way: str) -> None:
    count = len(tokens)
    stream = Stream("text", torch.ones(1, count), torch.ones(1, count, dtype=torch.bool), (tokens,))
    made = Attribution(
        "gae", {"text": stream}, "text", torch.tensor([0]), torch.tensor([1.0]), ("x",)
    )
    assert f'<p class="words in-words" dir="{way}">' in views["html"].render(made)
