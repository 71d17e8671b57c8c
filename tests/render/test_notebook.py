"""Notebooks: one sample or a few as HTML, a large batch is cut, with a note."""

from __future__ import annotations

from collections.abc import Callable

import html5lib
import pytest
import torch

from whyformer.attribution import Attribution, Stream
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
