"""A real browser: any row of any layer and head, at once, in a page that stays small.

Skipped where no Chromium is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.browser import Browser, needs_chromium
from tests.render.test_layer_payload import deciding
from whyformer.attribution import Attribution, Layer, Stream, views
from whyformer.render.colours import step

Make = Callable[..., Attribution]
Kept = Callable[..., Layer]
pytestmark = needs_chromium

OPEN = """new Promise((done) => {
  document.querySelector(".inside").open = true;
  setTimeout(done, 0);
})"""
COLOURS = """[...document.querySelectorAll(".inside .tokens .word")]
  .map((token) => token.className.match(/[pn]\\d+/)[0])"""
SHOWS = "document.querySelector('.inside .shows').textContent"


def opened(browser: Browser, made: Attribution) -> None:
    browser.show(views["html"].render(made))
    browser.run(OPEN)


def colours(row: Tensor, special: tuple[int, ...]) -> list[str]:
    """The classes of a row whose strongest token is full; special ones are no measure."""
    span = max(abs(v) for i, v in enumerate(row.tolist()) if i not in special)
    steps = [step(v / span) for v in row.tolist()]
    return [f"n{-s}" if s < 0 else f"p{s}" for s in steps]


def nearly(found: list[str], expected: list[str]) -> bool:
    """Whether two rows of colours are the same but for the last step, which rounding may take."""

    def value(name: str) -> int:
        return int(name[1:]) * (-1 if name[0] == "n" else 1)

    return all(abs(value(a) - value(b)) <= 1 for a, b in zip(found, expected, strict=True))


def choose(browser: Browser, title: str, name: str) -> None:
    """Chooses by pointer, in the group of that title."""
    browser.run(
        "[...document.querySelectorAll('.inside fieldset')]"
        f".find((set) => set.querySelector('legend').textContent === '{title}')"
        f".querySelectorAll('label').forEach((l) => l.id = l.textContent === '{name}'"
        " ? 'expected' : '')"
    )
    browser.click("#expected")


def test_layer_head_and_kind_can_be_chosen(
    sentence: Make, attended: Kept, browser: Browser
) -> None:
    layers = tuple(attended(3, 7, 7, gradient=True, seed=i) for i in range(4))
    opened(browser, deciding(sentence(layers=layers), "text", 0))
    maps: list[Any] = [(layer.attention, layer.gradient) for layer in layers]
    attention = maps[3][0]
    assert browser.run(SHOWS).startswith("Layer 4, mean of 3 heads: where “[CLS]”, which decides")
    assert nearly(browser.run(COLOURS), colours(attention[0].mean(0)[0], (0, 6)))
    choose(browser, "head", "2")
    assert browser.run(SHOWS).startswith("Layer 4, head 2: ")
    assert nearly(browser.run(COLOURS), colours(attention[0, 1, 0], (0, 6)))
    choose(browser, "layer", "1")
    assert nearly(browser.run(COLOURS), colours(maps[0][0][0, 1, 0], (0, 6)))
    choose(browser, "show", "attention x gradient")
    assert nearly(browser.run(COLOURS), colours((maps[0][0] * maps[0][1])[0, 1, 0], (0, 6)))
    browser.point(".inside .tokens .word", 5)
    assert browser.run(SHOWS) == "Layer 1, head 2: where “dull” looks"
    assert nearly(browser.run(COLOURS), colours((maps[0][0] * maps[0][1])[0, 1, 5], (0, 6)))
    assert browser.run("document.querySelectorAll('.inside .chosen').length") == 1
    browser.point("h2")
    assert "which decides" in browser.run(SHOWS)
    assert browser.complaints == []
    assert browser.requests == []


def test_a_token_is_kept_by_pressing_and_let_go_by_escape(
    sentence: Make, attended: Kept, browser: Browser
) -> None:
    opened(browser, sentence(layers=(attended(2, 7, 7), attended(2, 7, 7, seed=1))))
    assert "the mean of all tokens" in browser.run(SHOWS)
    browser.run("document.querySelector('.inside .tokens .word').focus()")
    browser.press("ArrowRight", "ArrowRight", "Enter")
    assert "“ping”" in browser.run(SHOWS)
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    status = browser.run("document.querySelector('.inside .status').textContent")
    assert status.startswith("strongest: ")
    choose(browser, "layer", "1")
    browser.point("h2")
    assert browser.run(SHOWS) == "Layer 1, mean of 2 heads: where “ping” looks"
    browser.run("document.querySelectorAll('.inside .tokens .word')[2].focus()")
    browser.press("Escape")
    assert "the mean of all tokens" in browser.run(SHOWS)
    assert browser.run("document.querySelectorAll('.inside [aria-pressed=true]').length") == 0
    assert browser.complaints == []


def test_a_patch_asks_and_patches_answer(image: Make, attended: Kept, browser: Browser) -> None:
    layer = attended(2, 13, 13, "image")
    made = image(torch.rand(3, 4), size=(24, 32), layers=(layer,))
    opened(browser, deciding(made, "image"))
    assert "“class token”, which decides" in browser.run(SHOWS)
    browser.point(".inside .stage", 0, x=0.9, y=0.1)
    assert "“patch row 1, column 4”" in browser.run(SHOWS)
    dot = browser.run(
        "(() => { const c = document.querySelector('.inside canvas');"
        " return [c.width, c.height, c.hidden]; })()"
    )
    assert dot == [32, 24, False]
    assert layer.attention is not None
    row = layer.attention[0].mean(0)[4]
    status = browser.run("document.querySelector('.inside .status').textContent")
    best = int(row.argmax())
    name = "class token" if best == 0 else f"row {(best - 1) // 4 + 1}, column {(best - 1) % 4 + 1}"
    assert name in status.split(";")[0]
    browser.run("document.querySelector('.inside .stage').focus()")
    browser.press("ArrowDown")
    assert "“patch row 2, column 1”" in browser.run(SHOWS)
    assert browser.complaints == []


def test_queries_ask_an_image(detection: Make, attended: Kept, browser: Browser) -> None:
    layers = (attended(2, 48, 48, "image"), attended(2, 6, 48, "queries", "image"))
    opened(browser, detection(layers=layers))
    roles = "[...document.querySelectorAll('.inside .role')].map((r) => r.textContent)"
    assert browser.run(roles) == ["asking: queries", "answering: image"]
    browser.point(".inside .tokens .word", 3)
    assert "“query 3”" in browser.run(SHOWS)
    browser.point(".inside .stage")  # whoever only answers cannot ask
    assert "patch" not in browser.run(SHOWS)
    choose(browser, "layer", "1 image")
    assert browser.run(roles) == [""]
    assert browser.complaints == []


# What the brief of a page asks for: long, deep and wide, and still at hand.
LONG, DEEP, WIDE, MOST = 512, 12, 12, 5_000_000


@pytest.fixture(scope="module")
def large() -> Attribution:
    """512 tokens, 12 layers, 12 heads."""
    generator = torch.Generator().manual_seed(0)
    tokens = ("[CLS]", *(f"token{i}" for i in range(LONG - 2)), "[SEP]")
    words = (None, *(i // 2 for i in range(LONG - 2)), None)
    read = torch.zeros(1, LONG, dtype=torch.bool)
    read[0, 0] = True
    scores = torch.randn(1, LONG, generator=generator)
    mask = torch.ones(1, LONG, dtype=torch.bool)
    stream = Stream("text", scores, mask, (tokens,), (words,), deciding=read)
    layers = tuple(
        Layer(
            (3 * torch.randn(1, WIDE, LONG, LONG, generator=generator)).softmax(-1),
            asking="text",
            answering="text",
        )
        for _ in range(DEEP)
    )
    return Attribution(
        "gae",
        {"text": stream},
        "text",
        torch.tensor([0]),
        torch.tensor([1.0]),
        ("positive",),
        layers=layers,
    )


def test_a_large_model_stays_small_and_answers_at_once(
    large: Attribution, browser: Browser
) -> None:
    page = views["html"].render(large)
    assert len(page.encode()) < MOST
    browser.show(page)
    browser.run(OPEN)
    middle, layer = browser.run("""(() => {
      const tokens = [...document.querySelectorAll(".inside .tokens .word")], took = [];
      for (let i = 0; i < 101; i++) {
        const start = performance.now();
        tokens[5 * i].dispatchEvent(new PointerEvent("pointerenter"));
        document.body.offsetHeight;  // the browser lays it out before the clock is read
        took.push(performance.now() - start);
      }
      const start = performance.now();
      document.querySelector(".inside .choices input").click();
      document.body.offsetHeight;
      return [took.sort((a, b) => a - b)[50], performance.now() - start];
    })()""")
    # Far more than it needs, for machines that are busy; a reader notices from 100 ms on.
    assert middle < 100
    assert layer < 1000
    # The row that is seen first is whole; any other has its strongest.
    first = large.layers[0].attention
    assert first is not None
    browser.run(
        "document.querySelectorAll('.inside .tokens .word')[7]"
        ".dispatchEvent(new PointerEvent('pointerleave'))"
    )
    found = browser.run(COLOURS)
    assert nearly(found, colours(first[0].mean(0)[0], (0, LONG - 1)))
    assert "strongest of 512" in browser.run("document.querySelector('.inside .note').textContent")
    assert browser.complaints == []
