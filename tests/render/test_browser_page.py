"""A real browser: what a page offers beside its links works by pointer and by keyboard.

Skipped where no Chromium is installed.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch

from tests.browser import Browser, needs_chromium
from whyformer.attribution import Attribution, Layer, views
from whyformer.render.overlay import overlay_image, spread_patches
from whyformer.render.panels import ImagePanel
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]
Kept = Callable[..., Layer]
pytestmark = needs_chromium

DOTS = """(() => {
  const canvas = document.querySelector("CANVAS");
  const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [...data].filter((_, i) => i % 4 < 3);
})()"""


def dots(browser: Browser, canvas: str) -> list[int]:
    """The colours of a canvas, pixel by pixel."""
    found: list[int] = browser.run(DOTS.replace("CANVAS", canvas))
    return found


def far(one: list[int], other: list[float]) -> float:
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def quiet(browser: Browser) -> bool:
    """Whether the page has logged no problem and sent no request."""
    return not browser.complaints and not browser.requests


def test_words_fall_apart_into_sub_words_on_request(sentence: Make, browser: Browser) -> None:
    browser.show(views["html"].render(sentence()))
    shown = "[...document.querySelectorAll('.word')].filter((w) => w.checkVisibility()).length"
    assert browser.run(shown) == 6
    browser.click(".choices label", 1)
    assert browser.run(shown) == 7
    browser.run("document.activeElement.focus()")
    browser.press("ArrowLeft")  # native radio buttons: the arrows choose
    assert browser.run(shown) == 6
    assert quiet(browser)


def test_the_slider_says_how_much_colour_covers(image: Make, browser: Browser) -> None:
    made = image(torch.linspace(-1, 1, 12).reshape(3, 4), size=(24, 32))
    browser.show(views["html"].render(made))
    canvas = "[data-paint=overlay] canvas"
    assert browser.run(f"document.querySelector('{canvas}').hidden")
    browser.run("document.querySelector('.slider input').focus()")
    browser.press("ArrowRight")
    assert browser.run("document.querySelector('.slider output').textContent") == "81 %"
    panel = read_samples(made)[0].panels[0]
    assert isinstance(panel, ImagePanel)
    assert panel.image is not None
    shares = spread_patches(panel.shares, (24, 32), "bilinear")
    nearly = (overlay_image(panel.image, shares * 0.81 / 0.8) * 255).flatten().tolist()
    assert far(dots(browser, canvas), nearly) <= 3
    browser.press("Home")
    grey = (overlay_image(panel.image, 0 * shares) * 255).flatten().tolist()
    assert far(dots(browser, canvas), grey) <= 1
    assert quiet(browser)


def test_the_slider_stays_where_it_was_while_streams_are_linked(
    question: Make, browser: Browser
) -> None:
    browser.show(views["html"].render(question()))
    canvas = "[data-paint=overlay] canvas"
    browser.run("document.querySelector('.slider input').focus()")
    browser.press("Home")
    bare = dots(browser, canvas)
    browser.point("[data-panel='0'] .word", 2)
    assert dots(browser, canvas) == bare  # colour covers nothing, whatever is pointed at
    browser.run("document.querySelector('.slider input').focus()")
    browser.press("End")
    assert dots(browser, canvas) != bare
    assert quiet(browser)


def test_a_cell_is_read_out(translation: Make, browser: Browser) -> None:
    browser.show(views["html"].render(translation()))
    status = "document.querySelector('.status').textContent"
    start = browser.run(status)
    browser.point(".matrix td[class]", 18)
    assert browser.run(status) == "“magnificent” for “großartig”: +1.80"
    browser.point("h2")
    assert browser.run(status) == start
    browser.run("document.querySelector('.table .wide').focus()")
    browser.press("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp")
    assert browser.run(status) == "“film” for “dieser”: " + browser.run(
        "document.querySelector('.matrix').tBodies[0].rows[0].cells[2].textContent"
    )
    assert browser.run("document.querySelectorAll('.matrix .at').length") == 3
    browser.press("Escape")
    assert browser.run(status) == start
    assert quiet(browser)


def test_everything_can_be_copied(sentence: Make, browser: Browser) -> None:
    made = sentence(label="</script><b>")
    browser.show(views["html"].render(made))
    # Whether a page from a file may write to the clipboard is the browser's to say.
    browser.run("document.querySelector('.copy').focus()")
    browser.press("Enter")
    status = browser.run(
        "new Promise((done) => setTimeout(() =>"
        " done(document.querySelector('.tools [role=status]').textContent), 100))"
    )
    assert status.startswith(("Copied", "Selected"))
    # Where it may not, all of the text is selected for the reader to copy.
    browser.show(views["html"].render(made))
    browser.run("navigator.clipboard.writeText = () => Promise.reject(new Error('no')); null")
    browser.run("document.execCommand = () => false")
    browser.click(".copy")
    area = "document.querySelector('.tools textarea')"
    browser.run("new Promise((done) => setTimeout(done, 50))")
    text = browser.run(f"{area}.value.slice({area}.selectionStart, {area}.selectionEnd)")
    assert json.loads(text) == json.loads(views["json"].render(made))
    status = browser.run("document.querySelector('.tools [role=status]').textContent")
    assert "Ctrl+C" in status
    assert quiet(browser)


@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize(
    "kind", ["sentence", "question", "detection", "translation", "caption", "regions"]
)
def test_no_page_is_wider_than_its_window(
    kind: str, width: int, request: pytest.FixtureRequest, attended: Kept, browser: Browser
) -> None:
    made = request.getfixturevalue(kind)(conservation=torch.tensor([0.7]))
    name, stream = next(iter(made.streams.items()))
    count = stream.scores.shape[1]
    layers = (attended(16, count, count, name, gradient=True),) * 24
    made = type(made)(**{**vars(made), "layers": layers})
    for page in (views["html"].render(made), views["html"].render_comparison([made, made])):
        browser.show(page, width, dark=width < 400)
        browser.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        browser.run("new Promise((done) => setTimeout(done, 50))")
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert quiet(browser)


def test_the_tab_key_stops_a_few_times_and_never_gets_stuck(
    question: Make, attended: Kept, browser: Browser
) -> None:
    browser.show(views["html"].render(question(layers=(attended(4, 9, 9),) * 3)))
    browser.run("document.querySelector('.inside').open = true")
    browser.run("new Promise((done) => setTimeout(done, 50))")
    stops = []
    for _ in range(20):
        browser.press("Tab")
        stops.append(
            browser.run(
                "document.activeElement.className || document.activeElement.type"
                " || document.activeElement.tagName"
            )
        )
    first = stops[: stops.index("copy") + 1]
    # sub-words, words, picture, slider, layers and heads, layer, head, tokens, copy
    assert [kind.split()[0].lower() for kind in first] == [
        "radio",
        "word",
        "stage",
        "range",
        "summary",
        "radio",
        "radio",
        "word",
        "copy",
    ]
    assert quiet(browser)


def test_paper_has_no_buttons_and_nothing_folded(sentence: Make, browser: Browser) -> None:
    made = sentence(conservation=torch.tensor([1.0]))
    browser.show(views["html"].render(made), dark=True)
    browser.page.emulate_media(media="print")
    browser.run("dispatchEvent(new Event('beforeprint'))")
    seen = "[...document.querySelectorAll('.choices, .tools')].some((e) => e.checkVisibility())"
    assert not browser.run(seen)
    assert browser.run("[...document.querySelectorAll('details')].every((d) => d.open)")
    white = "getComputedStyle(document.body).backgroundColor"
    assert browser.run(white) == "rgb(255, 255, 255)"
    assert browser.page.pdf()
    browser.page.emulate_media(media="screen")


def test_without_scripts_the_page_still_says_everything(question: Make, browser: Browser) -> None:
    browser.show(views["html"].render(question()), scripts=False)
    shown = browser.run("document.body.innerText")
    assert "colour" in shown
    assert "layers and heads" not in shown
    assert "Copy" not in shown
