"""A real browser: one input, and a switch between what is explained and how.

Skipped where no Chromium is installed.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.browser import Browser, needs_chromium
from tests.render.test_switch import targets
from whyformer.attribution import Attribution, views
from whyformer.render.overlay import overlay_image, spread_patches
from whyformer.render.panels import ImagePanel
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]
pytestmark = needs_chromium

ANSWER = "document.querySelector('.answer').textContent"
COLOURS = (
    "[...document.querySelectorAll('.switch .word')].map((w) => w.className.match(/[pn]\\d+/)[0])"
)
LEGEND = "document.querySelector('.switch .legend').innerText.replace(/\\s+/g, ' ')"


def test_classes_can_be_switched_and_share_a_scale(text: Make, browser: Browser) -> None:
    browser.show(views["html"].render_comparison(targets(text), scale="shared"))
    assert browser.run(ANSWER).startswith("Why good? Output +1.00")
    assert browser.run(COLOURS) == ["p13", "n7"]
    scale = browser.run(LEGEND)
    assert scale == "against \N{MINUS SIGN}3.00 +3.00 for"
    browser.click(".choices label", 1)
    assert browser.run(ANSWER).startswith("Why bad? Output \N{MINUS SIGN}0.500")
    assert browser.run(COLOURS) == ["n7", "p3"]
    browser.press("ArrowRight")
    assert browser.run(ANSWER).startswith("Why good rather than bad? Output +1.50")
    assert browser.run(COLOURS) == ["p20", "n10"]
    assert browser.run(LEGEND) == scale
    title = browser.run("document.querySelector('.switch .word').title")
    assert title == "a: +3.00"
    assert browser.complaints == []
    assert browser.requests == []


def test_each_class_has_its_own_scale_by_default(text: Make, browser: Browser) -> None:
    browser.show(views["html"].render_comparison(targets(text)))
    scales = []
    for nth, colours in enumerate((["p20", "n10"], ["n20", "p10"], ["p20", "n10"])):
        browser.click(".choices label", nth)
        assert browser.run(COLOURS) == colours
        scales.append(browser.run(LEGEND))
    assert len(set(scales)) == 3
    assert browser.complaints == []


def test_methods_are_switched_on_one_picture(image: Make, browser: Browser) -> None:
    made = [
        image(torch.linspace(low, 1, 12).reshape(3, 4), size=(24, 32), method=method)
        for method, low in (("gae", 0.0), ("rollout", -1.0), ("random", 0.9))
    ]
    browser.show(views["html"].render_comparison(made))
    seen = []
    for nth, one in enumerate(made):
        browser.click(".choices label", nth)
        assert f"by {one.method}." in browser.run(ANSWER)
        dots = browser.run(
            "(() => { const c = document.querySelector('.switch canvas');"
            " const {data} = c.getContext('2d').getImageData(0, 0, c.width, c.height);"
            " return [...data].filter((_, i) => i % 4 < 3); })()"
        )
        panel = read_samples(one)[0].panels[0]
        assert isinstance(panel, ImagePanel)
        assert panel.image is not None
        expected = (
            overlay_image(panel.image, spread_patches(panel.shares, (24, 32), "bilinear")) * 255
        )
        assert max(abs(a - b) for a, b in zip(dots, expected.flatten().tolist(), strict=True)) <= 2
        seen.append(dots)
    assert seen[0] != seen[1] != seen[2]
    browser.run("document.querySelector('.slider input').focus()")
    browser.press("Home")
    browser.click(".choices label", 0)
    bare = (
        "(() => { const c = document.querySelector('.switch canvas');"
        " return c.getContext('2d').getImageData(0, 0, 9, 9).data.join(); })()"
    )
    before = browser.run(bare)
    browser.click(".choices label", 1)
    assert browser.run(bare) == before  # the slider holds for all of them
    assert browser.complaints == []


def test_streams_are_switched_together(question: Make, browser: Browser) -> None:
    made = [question(), question(method="rollout", maps={}), question(size=None)]
    for attributions in (made[:2], [made[2], made[2]]):
        browser.show(views["html"].render_comparison(attributions), width=400)
        browser.press("Tab", "ArrowRight")
        assert browser.run("document.querySelectorAll('.switch canvas:not([hidden])').length") == 1
        assert browser.run("document.documentElement.scrollWidth") <= 400
        assert browser.complaints == []


def test_hostile_titles_stay_titles(sentence: Make, browser: Browser) -> None:
    odd = "</script><img src=x onerror=\"document.title='broken'\">"
    browser.show(views["html"].render_comparison({odd: sentence(label=odd), "b": sentence()}))
    assert browser.run("document.querySelector('.choices label').textContent") == odd
    assert odd in browser.run(ANSWER)
    assert browser.run("document.images.length") == 0
    assert browser.complaints == []
