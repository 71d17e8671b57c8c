"""A real browser: the script of a linked page runs under the page's own policy and does its work.

Skipped where no Chromium is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from tests.browser import Browser, needs_chromium
from whyformer.attribution import Attribution, views
from whyformer.render.colours import step
from whyformer.render.overlay import overlay_image, spread_patches
from whyformer.render.panels import ImagePanel
from whyformer.render.view_model import read_samples

Make = Callable[..., Attribution]
pytestmark = needs_chromium

# What every test may use; `found` is what it hands back.
STEPS = """(async () => {
  const found = {};
  const words = () => [...document.querySelectorAll("[data-panel='0'] .words .word")];
  const shows = (i) => document.querySelector(`[data-panel="${i}"] .shows`).textContent;
  const colours = () => words().map((word) => word.className.match(/[pn]\\d+/)[0]);
  const press = (on, key) =>
    on.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
  const stage = document.querySelector("[data-paint]");
  BODY
  return found;
})()"""


def drive(browser: Browser, attribution: Attribution, body: str) -> dict[str, Any]:
    """What the steps found in the attribution's page, which must not complain."""
    browser.show(views["html"].render(attribution))
    found: dict[str, Any] = browser.run(STEPS.replace("BODY", body))
    assert browser.complaints == []
    assert browser.requests == []
    return found


def classes(values: Tensor, special: int | None = None) -> list[str]:
    """The colours of a row or column whose strongest word is full; a special one is no measure."""
    span = max(abs(v) for i, v in enumerate(values.tolist()) if i != special)
    steps = [step(v / span) for v in values.tolist()]
    return [f"n{-s}" if s < 0 else f"p{s}" for s in steps]


def test_a_word_shows_its_row_and_leaving_returns_to_the_answer(
    question: Make, browser: Browser
) -> None:
    made = question()
    found = drive(
        browser,
        made,
        """
        const canvas = stage.querySelector("canvas");
        found.before = shows(1);
        found.hidden = canvas.hidden;
        words()[2].focus();
        found.during = shows(1);
        found.shown = !canvas.hidden;
        found.size = [canvas.width, canvas.height];
        const dots = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        found.dots = [...dots].filter((_, i) => i % 4 < 3);
        found.live = document.querySelector(".live").textContent;
        words()[2].blur();
        found.after = shows(1);
        found.hiddenAgain = canvas.hidden;
        """,
    )
    assert found["before"] == found["after"] == "relevance for red"
    assert found["during"].startswith("relevance for “colour”, full colour at +0.0948")
    assert found["hidden"]
    assert found["shown"]
    assert found["hiddenAgain"]
    # What the browser painted is what Python paints of the same row.
    content = read_samples(made)[0]
    row = content.matrices[0].values[2].reshape(6, 8)
    panel = content.panels[1]
    assert isinstance(panel, ImagePanel)
    assert panel.image is not None
    shares = spread_patches(row / row.abs().max(), (72, 96), "bilinear")
    expected = (overlay_image(panel.image, shares) * 255).flatten().tolist()
    assert found["size"] == [96, 72]
    assert max(abs(a - b) for a, b in zip(found["dots"], expected, strict=True)) <= 2
    assert "image: row" in found["live"]


def test_a_patch_shows_its_words_and_says_which_way(question: Make, browser: Browser) -> None:
    steps = """
        found.own = colours();
        const place = stage.getBoundingClientRect();
        const at = {clientX: place.left + 1, clientY: place.top + 1, bubbles: true};
        stage.dispatchEvent(new PointerEvent("pointermove", at));
        found.during = shows(0);
        found.colours = colours();
        stage.dispatchEvent(new PointerEvent("pointerleave", {}));
        found.after = colours();
    """
    made = question()
    found = drive(browser, made, steps)
    assert found["during"].startswith("relevance for patch row 1, column 1")
    assert found["after"] == found["own"] != found["colours"]
    row = read_samples(made)[0].matrices[1].values[0]
    strongest = int(row[1:-1].abs().argmax()) + 1  # not [CLS] and [SEP]
    assert found["colours"][strongest] == ("p20" if row[strongest] > 0 else "n20")

    one_way = question(maps={("text", "image"): made.maps["text", "image"]})
    found = drive(browser, one_way, steps)
    start = "relevance of patch row 1, column 1 for each of these words"
    assert found["during"].startswith(start)


def test_the_keyboard_reaches_everything(question: Make, browser: Browser) -> None:
    found = drive(
        browser,
        question(),
        """
        found.stops = [...document.querySelectorAll("[tabindex='0']")].map((e) => e.className);
        words()[0].focus();
        press(words()[0], "ArrowRight");
        found.at = document.activeElement.textContent;
        press(document.activeElement, "Enter");
        document.activeElement.blur();
        found.kept = shows(1);
        words()[1].focus();
        press(document.activeElement, "Escape");
        found.released = shows(1);
        press(stage, "ArrowDown");
        found.patch = shows(0);
        """,
    )
    assert len(found["stops"]) == 2  # the words and the image: arrows do the rest
    assert found["at"] == "what"
    assert found["kept"].startswith("relevance for “what”")
    assert found["released"] == "relevance for red"
    assert found["patch"].startswith("relevance for patch row 4, column 3")


def test_an_output_word_shows_its_sources_and_a_source_its_output(
    translation: Make, browser: Browser
) -> None:
    found = drive(
        browser,
        translation(),
        """
        const output = [...document.querySelectorAll("[data-said] .word")];
        output[3].focus();
        found.source = colours();
        found.caption = shows(0);
        found.input = shows(1);
        output[3].blur();
        words()[3].focus();
        found.output = output.map((word) => word.className.match(/[pn]\\d+/)[0]);
        found.column = document.querySelector("[data-said] .shows").textContent;
        """,
    )
    assert found["caption"].startswith("relevance for “großartig”")
    assert found["input"].startswith("relevance for “großartig”")
    over = read_samples(translation())[0].matrices[0].values
    assert found["source"] == classes(over[3], special=4)
    assert found["output"] == classes(over[:, 3])
    assert found["column"].startswith("relevance of “magnificent” for each of these words")


def test_hostile_words_stay_words(question: Make, browser: Browser) -> None:
    odd = "</script><img src=x onerror=\"document.title='broken'\">"
    tokens = ("[CLS]", odd, "col", "our", "is", "the", "مرحبا", "👩‍🚀", "[SEP]")
    found = drive(
        browser,
        question(tokens=tokens, label=odd),
        """
        words()[1].focus();
        found.caption = shows(1);
        found.title = document.title;
        found.images = document.images.length;
        """,
    )
    assert found["caption"].startswith(f"relevance for “{odd}”")
    assert found["title"] == f"Why {odd}?"
    assert found["images"] == 3
